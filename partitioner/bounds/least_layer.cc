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

}  // namespace sluice
