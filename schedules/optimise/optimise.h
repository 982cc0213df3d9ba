#ifndef SLUICE_SCHEDULES_OPTIMISE_OPTIMISE_H_
#define SLUICE_SCHEDULES_OPTIMISE_OPTIMISE_H_

#include "absl/status/statusor.h"
#include "schedules/optimise/problem/request.h"

namespace sluice {

// The best timetable found, with proof of how far from the best possible it can be.
// InvalidArgument for costs or limits that make no sense (wrong length, negative).
// ResourceExhausted when no timetable keeps the limits; says which rank, and the least that would
// do.
absl::StatusOr<OptimisedTimetable> OptimiseTimetable(const OptimiseRequest& request);

// The objective of a simulated timetable.
double ObjectiveValue(const Simulation& run, Objective objective);

// Whether no rank of `run` holds more than `limits` allow.
bool KeepsLimits(const Simulation& run, const MemoryLimits& limits);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_OPTIMISE_OPTIMISE_H_
