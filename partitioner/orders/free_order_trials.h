#ifndef SLUICE_PARTITIONER_ORDERS_FREE_ORDER_TRIALS_H_
#define SLUICE_PARTITIONER_ORDERS_FREE_ORDER_TRIALS_H_

#include <vector>

#include "absl/types/span.h"
#include "models/spec/model_spec.h"
#include "partitioner/orders/full_rank_cut.h"
#include "schedules/optimise/dispatch_rules.h"

namespace sluice {

// Where the full ranks and their layers are, what stages recompute, and the order.
struct FreeOrderTrial {
  FullRanks full;
  double front_share;  // as LeastCut takes it
  Recompute everywhere, in_spare_time;
  double fit;   // not 0: recompute to fit at this slowness instead
  bool longer;  // and work longer than the fullest rank for it, where that is needed
  optimise::DispatchRules rules;
};

// What FindFreeOrder tries.
absl::Span<const FreeOrderTrial> FreeOrderTrials();

// Which rank waits for which is a matter of chance: some of these do better than `trial`.
std::vector<FreeOrderTrial> TrialsNear(const FreeOrderTrial& trial);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_ORDERS_FREE_ORDER_TRIALS_H_
