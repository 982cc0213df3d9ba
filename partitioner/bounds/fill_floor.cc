#include "partitioner/bounds/fill_floor.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "partitioner/bounds/least_layer.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// How many kinds of ranks, and of prices at each end, are told apart; models have few kinds of
// layers.
constexpr size_t kMostKinds = 12;

// Prices of a byte; negative: this end does not count.
struct Prices {
  double first, last;
  double sum() const { return std::max(0.0, first) + std::max(0.0, last); }
};

// One layer under one policy, for one micro-batch.
struct Choice {
  double forward = 0, back = 0, weight_grad = 0;  // seconds; back: R + I + W
  double saved = 0, weight_bytes = 0;

  double forward_per_byte() const { return saved > 0 ? forward / saved : 0; }
  // Seconds that cannot be done while the rank waits, with the price of the bytes held.
  double Seconds(const Prices& prices) const {
    double seconds = forward + back;
    if (prices.first >= 0) seconds -= std::max(0.0, forward - prices.first * saved);
    if (prices.last >= 0) {
      seconds -=
          std::max({0.0, back - prices.last * saved, weight_grad - prices.last * weight_bytes});
    }
    return seconds;
  }
};

struct Layer {
  std::vector<Choice> choices;
  double parameter_bytes = 0;
  double tail = 0;  // seconds, once per step
  double work = 0;  // seconds of a step, at the least
};

// Some values of many, the largest among them; ascending.
std::vector<double> Sample(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const size_t step = (all.size() + kMostKinds - 1) / kMostKinds;
  std::vector<double> some;
  for (size_t at = all.size(); at > 0; at -= std::min(step, at)) some.push_back(all[at - 1]);
  std::reverse(some.begin(), some.end());
  return some;
}

class Filling {
 public:
  explicit Filling(const Workload& workload) : micro_batches_(workload.micro_batches) {
    for (int rank = 0; rank < workload.devices; ++rank) {
      memory_ = std::max(memory_, static_cast<double>(workload.machines.MemoryOf(rank)));
    }
    for (int at = 0; at < workload.machines.costs->layer_count(); ++at) AddLayer(workload, at);
    KeepLongest(workload.devices);
    FindPrices();
  }

  // The least over the kinds of ranks that there may be.
  double Seconds() const {
    double least = OfKind(-1, 0);  // none keeps anything
    double below = 0;
    for (double best : kinds_) {
      least = std::min(least, OfKind(below, best));
      below = best;
    }
    return least;
  }

 private:
  void AddLayer(const Workload& workload, int at) {
    const LayerCost& cost = workload.machines.costs->layers()[at];
    const LeastLayer least = LeastOf(workload, at);
    down_ += least.forward;
    up_ += least.input_grad + least.recompute;
    Layer layer;
    layer.parameter_bytes = static_cast<double>(cost.parameter_bytes - cost.tied_bytes);
    layer.tail = least.tail;
    layer.work = micro_batches_ * (least.chained() + least.weight_grad) + least.tail;
    for (Recompute policy : workload.policies) {
      Choice choice;
      choice.forward = least.forward;
      choice.back = LeastRecompute(workload, at, policy) + least.input_grad + least.weight_grad;
      choice.weight_grad = least.weight_grad;
      choice.saved = static_cast<double>(cost.saved_bytes[static_cast<size_t>(policy)]);
      choice.weight_bytes = static_cast<double>(cost.weight_grad_bytes);
      layer.choices.push_back(choice);
    }
    layers_.push_back(std::move(layer));
  }

  // The layers among which some rank has the most work that is sure to meet on one.
  void KeepLongest(int devices) {
    std::sort(layers_.begin(), layers_.end(),
              [](const Layer& a, const Layer& b) { return a.work > b.work; });
    std::vector<double> work;
    for (const Layer& layer : layers_) work.push_back(layer.work);
    const Fullest fullest = FullestRank(std::move(work), devices);
    together_ = fullest.count;
    layers_.resize(fullest.of);
  }

  // Break-even prices, where computing a layer saves exactly the memory that it costs: the bound
  // has its corners there.
  void FindPrices() {
    std::vector<double> kinds, last;
    for (const Layer& layer : layers_) {
      for (const Choice& choice : layer.choices) {
        kinds.push_back(choice.forward_per_byte());
        if (choice.saved > 0) last.push_back(choice.back / choice.saved);
        if (choice.weight_bytes > 0) last.push_back(choice.weight_grad / choice.weight_bytes);
      }
    }
    kinds_ = Sample(std::move(kinds));
    first_prices_ = kinds_;
    last_prices_ = Sample(std::move(last));
    first_prices_.push_back(-1);
    last_prices_.push_back(-1);
  }

  // Ranks whose best F per byte is above `below` and at most `best`.
  double OfKind(double below, double best) const {
    double most = 0;
    for (double first : first_prices_) {
      for (double last : last_prices_) {
        most = std::max(most, At({first, last}, below, best));
      }
    }
    return most;
  }

  double At(const Prices& prices, double below, double best) const {
    std::vector<double> terms;
    double pays = kInfinity;  // at least what one layer pays for being of this kind
    for (const Layer& layer : layers_) {
      double least = kInfinity, least_of_kind = kInfinity;
      for (const Choice& choice : layer.choices) {
        if (choice.forward_per_byte() > best) continue;
        const double seconds = choice.Seconds(prices);
        least = std::min(least, seconds);
        if (choice.forward_per_byte() > below) least_of_kind = std::min(least_of_kind, seconds);
      }
      if (least == kInfinity) continue;  // no such rank has this layer
      pays = std::min(pays, least_of_kind - least);
      terms.push_back(micro_batches_ * least + prices.sum() * layer.parameter_bytes +
                      (prices.last >= 0 ? 0 : layer.tail));
    }
    if (pays == kInfinity || terms.size() < together_) return kInfinity;  // no such rank
    const auto end = terms.begin() + static_cast<std::ptrdiff_t>(together_);
    std::nth_element(terms.begin(), end - 1, terms.end());
    return std::accumulate(terms.begin(), end, 0.0) + micro_batches_ * pays -
           prices.sum() * memory_ + (prices.first >= 0 ? down_ : 0) + (prices.last >= 0 ? up_ : 0);
  }

  double micro_batches_;
  double memory_ = 0;          // of the largest device
  double down_ = 0, up_ = 0;   // seconds
  std::vector<Layer> layers_;  // those that work longest
  size_t together_ = 0;        // of them, on one rank
  std::vector<double> kinds_;  // upper ends of F per byte
  std::vector<double> first_prices_, last_prices_;
};

}  // namespace

double FillFloor(const Workload& workload) { return Filling(workload).Seconds(); }

}  // namespace sluice
