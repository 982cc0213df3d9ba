#ifndef SLUICE_SCHEDULES_OPTIMISE_CHOOSE_H_
#define SLUICE_SCHEDULES_OPTIMISE_CHOOSE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/optimise/problem/request.h"

// Chooses the placement and the number of chunks as well; and the trade-off of memory and time.
namespace sluice {

// The model cut finer: every given stage becomes `parts` stages of equal costs, placed on the ranks
// in a loop or in a V.
struct Cut {
  int parts = 1;
  Placement placement = Placement::Looped(1);
  StageCosts costs;
};

// `costs` are for one stage per rank. A new edge, between parts of one stage, costs as much as the
// most expensive given one; an overlapped pair of parts takes 1 / parts of a pair of stages.
StageCosts SplitStages(const StageCosts& costs, int parts);

// One stage per rank; and looped and V for each number of parts from 2 to `most_parts` that is a
// power of two.
std::vector<Cut> CutsOf(int ranks, const StageCosts& costs, int most_parts);

// A limit of whole stages' activations, as one of those of parts of stages.
int LimitOfParts(int limit, int parts);

// `request` asks for one stage per rank; `cut` says how these stages are cut. A limit of activations
// counts those of whole stages, so it is multiplied by the number of parts.
OptimiseRequest RequestFor(const Cut& cut, const OptimiseRequest& request);

// The best timetable of all cuts; lower_bound and gap are proved for all of these cuts. Fails only
// when no cut keeps the limits. `request.placement` must have one stage per rank. A time limit is
// divided among the cuts.
absl::StatusOr<OptimisedTimetable> ChooseTimetable(const OptimiseRequest& request,
                                                   const std::vector<Cut>& cuts);

// What is best when every rank may hold at most `limit` activations of whole stages.
struct TradeOff {
  int limit = 0;
  Cut cut;  // of `best`
  OptimisedTimetable best;
};

// One entry for every limit, in rising order, that can be met. What is found for one limit is a
// start for the next, so the objective never rises. A time limit is divided among the limits.
absl::StatusOr<std::vector<TradeOff>> SweepMemory(const OptimiseRequest& request,
                                                  const std::vector<Cut>& cuts,
                                                  const std::vector<int>& limits);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_OPTIMISE_CHOOSE_H_
