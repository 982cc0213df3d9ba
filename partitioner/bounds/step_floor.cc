#include "partitioner/bounds/step_floor.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "partitioner/bounds/fill_floor.h"
#include "partitioner/bounds/least_layer.h"

namespace sluice {
namespace {

// Whether all devices together hold the parameters and one micro-batch, at the least that any
// policy keeps of it: a rank holds its part of that when the first micro-batch comes to its last
// stage.
bool CanFit(const Workload& workload) {
  if (!workload.machines.limits_memory()) return true;
  double bytes = 0, memory = 0;
  for (const LayerCost& layer : workload.machines.costs->layers()) {
    int64_t saved = std::numeric_limits<int64_t>::max();
    for (Recompute policy : workload.policies) {
      saved = std::min(saved, layer.saved_bytes[static_cast<size_t>(policy)]);
    }
    bytes +=
        static_cast<double>(layer.parameter_bytes - layer.tied_bytes) + static_cast<double>(saved);
  }
  for (int rank = 0; rank < workload.devices; ++rank) {
    memory += static_cast<double>(workload.machines.MemoryOf(rank));
  }
  return bytes <= memory;
}

// What keeping activations costs. A layer's activations of one micro-batch are held at least while
// it goes forth and back through this layer and all after it, so a step's byte-seconds are known;
// all devices together offer no more than what their parameters leave, as long as the step takes.
// Layers that recompute hold less and work more: of every mixture of "byte-seconds over bytes" and
// "work over devices", each layer takes the policy that is best for it, and the largest of these
// least values counts (a Lagrangian dual of the choice).
class MemoryFloor {
 public:
  explicit MemoryFloor(const Workload& workload) : workload_(workload) {
    for (int rank = 0; rank < workload.devices; ++rank) {
      room_ += static_cast<double>(workload.machines.MemoryOf(rank));
    }
    for (const LayerCost& layer : workload.machines.costs->layers()) {
      room_ -= static_cast<double>(layer.parameter_bytes - layer.tied_bytes);
    }
    double through = 0;  // seconds forth and back through the layers from here on
    for (int layer = workload.machines.costs->layer_count() - 1; layer >= 0; --layer) {
      const LeastLayer least = LeastOf(workload, layer);
      through += least.chained();
      through_.push_back(through);
    }
    std::reverse(through_.begin(), through_.end());
  }

  double Seconds() const {
    if (room_ <= 0) return 0;
    double most = 0;
    for (int part = 0; part <= kMixtures; ++part) {
      most = std::max(most, Mixture(static_cast<double>(part) / kMixtures));
    }
    return most;
  }

 private:
  static constexpr int kMixtures = 32;

  // `share` of the seconds that memory takes and the rest of those that the work takes.
  double Mixture(double share) const {
    const double micro_batches = workload_.micro_batches;
    double seconds = 0;
    for (int at = 0; at < workload_.machines.costs->layer_count(); ++at) {
      const LayerCost& layer = workload_.machines.costs->layers()[at];
      const LeastLayer least = LeastOf(workload_, at);
      const double work = least.forward + least.input_grad + least.weight_grad;
      double here = std::numeric_limits<double>::infinity();
      for (Recompute policy : workload_.policies) {
        const double held =
            through_[at] * static_cast<double>(layer.saved_bytes[static_cast<size_t>(policy)]);
        const double again = LeastRecompute(workload_, at, policy);
        here =
            std::min(here, share * held / room_ + (1 - share) * (work + again) / workload_.devices);
      }
      seconds += micro_batches * here + (1 - share) * least.tail / workload_.devices;
    }
    return seconds;
  }

  const Workload& workload_;
  double room_ = 0;              // bytes of all devices
  std::vector<double> through_;  // [layer]
};

}  // namespace

double StepFloor(const Workload& workload) {
  if (!CanFit(workload)) return std::numeric_limits<double>::infinity();
  const double micro_batches = workload.micro_batches;
  double all = 0, once = 0;
  std::vector<double> each;  // seconds of a step in a layer
  for (int layer = 0; layer < workload.machines.costs->layer_count(); ++layer) {
    const LeastLayer least = LeastOf(workload, layer);
    const double chained = least.chained();
    each.push_back(micro_batches * (chained + least.weight_grad) + least.tail);
    all += each.back();
    once += chained;
  }
  const std::vector<double> starts = StartsOf(workload);
  all += std::accumulate(starts.begin(), starts.end(), 0.0);
  const double time =
      std::max({all / workload.devices, once, FullestRankWithStart(std::move(each), starts)});
  if (!workload.machines.limits_memory()) return time;
  return std::max({time, MemoryFloor(workload).Seconds(), FillFloor(workload)});
}

}  // namespace sluice
