#ifndef SLUICE_PARTITIONER_ORDERS_CUSTOM_ORDER_TRIALS_H_
#define SLUICE_PARTITIONER_ORDERS_CUSTOM_ORDER_TRIALS_H_

#include <vector>

#include "absl/types/span.h"
#include "models/spec/layer_spec.h"
#include "partitioner/orders/full_rank_cut.h"
#include "schedules/optimise/dispatch/dispatch_rules.h"

namespace sluice {

// One way to make a custom order: a cut, what its stages recompute, and rules of dispatch.
struct CustomOrderTrial {
  FullRanks full;                       // where on the V the full ranks stand
  double front_share;                   // as LeastCut() takes it
  Recompute everywhere, in_spare_time;  // as RecomputeInSpareTime() takes them
  double fit;                           // not 0: RecomputeToFit() instead, with this slowness
  bool longer;                          // and as RecomputeToFit() takes it
  optimise::DispatchRules rules;
};

// What FindCustomOrder tries.
absl::Span<const CustomOrderTrial> CustomOrderTrials();

// The same with slightly other numbers. Small changes decide which rank happens to wait for which,
// so some of these do better than `trial`.
std::vector<CustomOrderTrial> TrialsNear(const CustomOrderTrial& trial);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_ORDERS_CUSTOM_ORDER_TRIALS_H_
