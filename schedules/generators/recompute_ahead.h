#ifndef SLUICE_SCHEDULES_GENERATORS_RECOMPUTE_AHEAD_H_
#define SLUICE_SCHEDULES_GENERATORS_RECOMPUTE_AHEAD_H_

#include <vector>

#include "schedules/timetable.h"

namespace sluice {

// `table` with a RECOMPUTE before each B or I of the stages of the model for which `stages` is true
// (of all stages where `stages` is empty). A RECOMPUTE needs nothing from other ranks, so a rank
// rebuilds activations while it waits for the gradient; if the backward rebuilt them, all previous
// ranks would wait for that too. In the cool-down of 1F1B this shortens the wait of each rank by
// one recomputation, and the makespan by (p - 1) R.
//
// The price is memory: between RECOMPUTE and B the rank holds all activations of one micro-batch,
// whereas a backward that rebuilds them needs those of one layer at a time. No RECOMPUTE is added
// where the table already has one, or directly after the forward: its activations are still there.
Timetable RecomputeAhead(const Timetable& table, const std::vector<bool>& stages = {});

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_RECOMPUTE_AHEAD_H_
