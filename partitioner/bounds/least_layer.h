#ifndef SLUICE_PARTITIONER_BOUNDS_LEAST_LAYER_H_
#define SLUICE_PARTITIONER_BOUNDS_LEAST_LAYER_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "partitioner/workload.h"

// What every plan of a workload pays at least for each layer: what lower bounds of a step are made
// of.
namespace sluice {

// The least seconds that any of the workload's devices takes for one micro-batch of a layer.
struct LeastLayer {
  double forward = std::numeric_limits<double>::infinity();
  double input_grad = forward, weight_grad = forward;
  double recompute = forward;  // by the policy that costs least
  double tail = forward;       // once per step

  double chained() const { return forward + input_grad + recompute; }
};

LeastLayer LeastOf(const Workload& workload, int layer);

// Of the policies' seconds of recomputation, this one's.
double LeastRecompute(const Workload& workload, int layer, Recompute policy);

// What the fullest of `ranks` has at least when whole things are shared out: of the largest
// k * ranks + 1, some rank has k + 1 (a bound of bin packing: Martello and Toth, Knapsack Problems,
// 1990, section 8.3). Of the k for which that is most:
struct Fullest {
  double sum = 0;    // of the least k + 1 of them
  size_t count = 0;  // k + 1
  size_t of = 0;     // k * ranks + 1
};
Fullest FullestRank(std::vector<double> sizes, int ranks);

// How long each rank waits at least before it has anything to do, seconds, in ascending order: the
// first layers of two ranks differ, and a rank starts only when a micro-batch has gone forward
// through all layers before its first one. Rank `i` of them, counted from 0, waits at least for
// layers 0 to i - 1.
std::vector<double> StartsOf(const Workload& workload);

// As FullestRank, in seconds, where the ranks that have most do not all start at once: of the
// largest k * ranks + j, either some rank has k + 2, or j ranks have k + 1, the last of which waits
// for starts[j - 1] first. `starts` ascend, one per rank.
double FullestRankWithStart(std::vector<double> sizes, const std::vector<double>& starts);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_LEAST_LAYER_H_
