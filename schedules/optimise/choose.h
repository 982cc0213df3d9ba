#ifndef SLUICE_SCHEDULES_OPTIMISE_CHOOSE_H_
#define SLUICE_SCHEDULES_OPTIMISE_CHOOSE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/optimise/optimise.h"

// Placement and number of chunks chosen too, and the trade-off between memory and time.
namespace sluice {

// The same model cut finer: every given stage into `parts` stages of equal costs, placed on the
// ranks in a loop or in a V.
struct Cut {
  int parts = 1;
  Placement placement = Placement::Looped(1);
  StageCosts costs;
};

// `costs` are those of one stage a rank. An edge that splitting makes costs as much as the dearest
// given one; an overlapped pair of parts takes its share of a pair of stages.
StageCosts SplitStages(const StageCosts& costs, int parts);

// One stage a rank; and for each number of parts from 2 to `most_parts` that is a power of two,
// looped and V.
std::vector<Cut> CutsOf(int ranks, const StageCosts& costs, int most_parts);

// `request` asks for one stage a rank; `cut` says how to cut these. A limit of activations counts
// those of whole stages: it is multiplied by the parts.
OptimiseRequest RequestFor(const Cut& cut, const OptimiseRequest& request);

// The best over all cuts; lower_bound and gap are proved for all of these. Fails only when no cut
// keeps the limits. `request.placement` must have one stage a rank. A time limit is divided among
// the cuts.
absl::StatusOr<OptimisedTimetable> ChooseTimetable(const OptimiseRequest& request,
                                                   const std::vector<Cut>& cuts);

// What is best when every rank may hold at most `limit` activations of whole stages.
struct TradeOff {
  int limit = 0;
  Cut cut;  // of the best
  OptimisedTimetable best;
};

// One entry for every limit, in rising order, that can be met. What is found for one limit is a
// start for the next, so the objective never rises. A time limit is divided among the limits.
absl::StatusOr<std::vector<TradeOff>> SweepMemory(const OptimiseRequest& request,
                                                  const std::vector<Cut>& cuts,
                                                  const std::vector<int>& limits);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_OPTIMISE_CHOOSE_H_
