#include "partitioner/bounds/least_layer.h"

#include <algorithm>
#include <functional>

namespace sluice {

LeastLayer LeastOf(const Workload& workload, int layer) {
  LeastLayer least;
  for (const CostTable* table : workload.machines.tables()) {
    const LayerCost& cost = table->layers()[layer];
    least.forward = std::min(least.forward, cost.forward_seconds);
    least.input_grad = std::min(least.input_grad, cost.input_grad_seconds);
    least.weight_grad = std::min(least.weight_grad, cost.weight_grad_seconds);
    least.tail = std::min(least.tail, cost.update_seconds - cost.tied_update_seconds +
                                          cost.tied_sum_seconds + cost.sync_seconds);
    for (Recompute policy : workload.policies) {
      least.recompute = std::min(least.recompute, cost.recompute_seconds(policy));
    }
  }
  return least;
}

double LeastRecompute(const Workload& workload, int layer, Recompute policy) {
  double least = std::numeric_limits<double>::infinity();
  for (const CostTable* table : workload.machines.tables()) {
    least = std::min(least, table->layers()[layer].recompute_seconds(policy));
  }
  return least;
}

Fullest FullestRank(std::vector<double> sizes, int ranks) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  Fullest fullest;
  for (size_t k = 0; k * static_cast<size_t>(ranks) < sizes.size(); ++k) {
    const size_t last = k * static_cast<size_t>(ranks);
    double sum = 0;
    for (size_t i = last - k; i <= last; ++i) sum += sizes[i];
    if (k == 0 || sum > fullest.sum) fullest = {sum, k + 1, last + 1};
  }
  return fullest;
}

std::vector<double> StartsOf(const Workload& workload) {
  std::vector<double> starts = {0};
  for (int rank = 1; rank < workload.devices; ++rank) {
    const bool has_layer = rank <= workload.machines.costs->layer_count();
    starts.push_back(starts.back() + (has_layer ? LeastOf(workload, rank - 1).forward : 0));
  }
  return starts;
}

double FullestRankWithStart(std::vector<double> sizes, const std::vector<double>& starts) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  std::vector<double> before = {0};  // [count] sum of so many of the largest
  for (double size : sizes) before.push_back(before.back() + size);
  const size_t ranks = starts.size();
  double most = 0;
  for (size_t largest = 1; largest <= sizes.size(); ++largest) {
    const size_t each = (largest - 1) / ranks + 1;
    // The least `count` of the largest.
    const auto least = [&](size_t count) { return before[largest] - before[largest - count]; };
    double here = starts[(largest - 1) % ranks] + least(each);
    if (each < largest) here = std::min(here, least(each + 1));
    most = std::max(most, here);
  }
  return most;
}

}  // namespace sluice
