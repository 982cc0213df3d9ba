#include "partitioner/bounds/stage_arcs.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Ranges looked at. Only long pipelines of many layers have more, and only while nothing is known
// that fits.
constexpr int64_t kMostArcs = 4'000'000;

// What a step takes at least because of one stage: its rank works on every micro-batch, the first
// of which must come through all layers before, and the gradient of the last must go back through
// them. Only the weight gradients, where they are actions of their own, may run meanwhile.
class StageFloor {
 public:
  explicit StageFloor(const PartitionProblem& problem)
      : micro_batches_(problem.timetable->micro_batches),
        splits_(problem.timetable->splits_backward()) {
    const std::vector<const CostTable*> tables = problem.machines.tables();
    for (int i = 0; i < problem.layer_count(); ++i) {
      double forward = kInfinity, back = kInfinity;
      for (const CostTable* table : tables) {
        const LayerCost& layer = table->layers()[i];
        forward = std::min(forward, layer.forward_seconds);
        for (Recompute policy : problem.policies) {
          back = std::min(back, layer.input_grad_seconds + layer.recompute_seconds(policy));
        }
      }
      forward_.push_back(forward_.back() + forward);
      back_.push_back(back_.back() + back);
    }
  }

  double Seconds(const StageArc& arc) const {
    const double chained = micro_batches_ * (arc.forward + arc.input_grad);
    const double weights = micro_batches_ * arc.weight_grad;
    const double in = forward_[arc.first], out = back_[arc.first];
    if (splits_) return in + chained + std::max(weights + arc.tail, out);
    return in + chained + weights + std::max(arc.tail, out);
  }

 private:
  int micro_batches_;
  bool splits_;
  // Seconds that one micro-batch spends in the layers before each, at the least that any policy and
  // device makes them.
  std::vector<double> forward_ = {0}, back_ = {0};
};

}  // namespace

StageArc MakeArc(const PartitionProblem& problem, int stage, int first, int end, Recompute policy) {
  const RangeCost cost = problem.Price(stage, first, end, policy);
  StageArc arc{first, end,       policy, cost.forward, cost.input_grad, cost.weight_grad,
               0,     cost.tail, 0};
  if (stage + 1 < problem.stages()) arc.send = problem.SendSeconds(stage, cost.output_bytes);
  return arc;
}

StageArcs::StageArcs(const PartitionProblem& problem, const Feasible& feasible, double cutoff)
    : layers_(problem.layer_count()), arcs_(problem.stages()) {
  const StageFloor floor(problem);
  const int stages = problem.stages();
  int64_t left = kMostArcs;
  for (int stage = 0; stage < stages; ++stage) {
    const int last_first = stage == 0 ? 0 : layers_ - (stages - stage);
    for (int first = stage; first <= last_first; ++first) {
      const int last_end = layers_ - (stages - 1 - stage);
      for (int end = stage + 1 == stages ? last_end : first + 1; end <= last_end; ++end) {
        double fastest = kInfinity;
        for (Recompute policy : feasible.Policies(stage, first, end)) {
          StageArc arc = MakeArc(problem, stage, first, end, policy);
          arc.bound = floor.Seconds(arc);
          fastest = std::min(fastest, arc.bound);
          if (arc.bound < cutoff) arcs_[stage].push_back(arc);
        }
        if (--left == 0) {
          complete_ = false;
          arcs_.assign(stages, {});
          Index();
          return;
        }
        if (fastest != kInfinity && fastest >= cutoff) break;  // a longer range only takes longer
      }
    }
  }
  Index();
}

void StageArcs::Index() {
  offsets_.assign(arcs_.size(), {});
  for (size_t stage = 0; stage < arcs_.size(); ++stage) {
    std::vector<int32_t>& offsets = offsets_[stage];
    offsets.assign(layers_ + 1, 0);
    for (const StageArc& arc : arcs_[stage]) ++offsets[arc.first + 1];
    for (int layer = 0; layer < layers_; ++layer) offsets[layer + 1] += offsets[layer];
  }
}

int64_t StageArcs::count() const {
  int64_t count = 0;
  for (const std::vector<StageArc>& arcs : arcs_) count += static_cast<int64_t>(arcs.size());
  return count;
}

absl::Span<const StageArc> StageArcs::From(int stage, int first) const {
  if (first >= layers_) return {};
  const std::vector<int32_t>& offsets = offsets_[stage];
  return absl::MakeConstSpan(arcs_[stage].data() + offsets[first],
                             arcs_[stage].data() + offsets[first + 1]);
}

void StageArcs::Cut(double cutoff) {
  for (std::vector<StageArc>& arcs : arcs_) {
    std::erase_if(arcs, [cutoff](const StageArc& arc) { return arc.bound >= cutoff; });
  }
  Index();
}

bool StageArcs::DropDeadEnds() {
  const int count = stages();
  std::vector<std::vector<char>> from_start(count + 1, std::vector<char>(layers_ + 1, 0));
  std::vector<std::vector<char>> to_end = from_start;
  from_start[0][0] = 1;
  to_end[count][layers_] = 1;
  for (int stage = 0; stage < count; ++stage) {
    for (const StageArc& arc : arcs_[stage]) {
      if (from_start[stage][arc.first]) from_start[stage + 1][arc.end] = 1;
    }
  }
  for (int stage = count - 1; stage >= 0; --stage) {
    for (const StageArc& arc : arcs_[stage]) {
      if (to_end[stage + 1][arc.end]) to_end[stage][arc.first] = 1;
    }
    std::erase_if(arcs_[stage], [&](const StageArc& arc) {
      return !from_start[stage][arc.first] || !to_end[stage + 1][arc.end];
    });
  }
  Index();
  return to_end[0][0] != 0;
}

std::vector<std::vector<double>> StageArcs::BoundsToEnd() const {
  std::vector<std::vector<double>> bounds(stages() + 1,
                                          std::vector<double>(layers_ + 1, kInfinity));
  bounds[stages()][layers_] = 0;
  for (int stage = stages() - 1; stage >= 0; --stage) {
    for (const StageArc& arc : arcs_[stage]) {
      double& bound = bounds[stage][arc.first];
      bound = std::min(bound, std::max(arc.bound, bounds[stage + 1][arc.end]));
    }
  }
  return bounds;
}

double StageArcs::LeastBound(std::vector<StageArc>* path) const {
  const std::vector<std::vector<double>> bounds = BoundsToEnd();
  if (path == nullptr || bounds[0][0] == kInfinity) return bounds[0][0];
  path->clear();
  for (int stage = 0, layer = 0; stage < stages(); ++stage) {
    const absl::Span<const StageArc> arcs = From(stage, layer);
    const auto value = [&](const StageArc& arc) {
      return std::max(arc.bound, bounds[stage + 1][arc.end]);
    };
    path->push_back(*std::min_element(
        arcs.begin(), arcs.end(),
        [&](const StageArc& a, const StageArc& b) { return value(a) < value(b); }));
    layer = path->back().end;
  }
  return bounds[0][0];
}

}  // namespace sluice
