#ifndef SLUICE_SCHEDULES_LOWER_H_
#define SLUICE_SCHEDULES_LOWER_H_

#include "absl/status/statusor.h"
#include "schedules/timetable.h"

namespace sluice {

// Inserts the sends and receives that a compute-only timetable implies: SEND after the action that
// makes the data, RECV before the one that uses them, none between stages on one rank. The result
// is deadlock-free for blocking rendezvous sends and has the same message order on both ends of
// every directed rank pair. Idle cells are dropped. InvalidArgument when `timetable` is already
// lowered or does not validate.
absl::StatusOr<Timetable> LowerTimetable(const Timetable& timetable);

// The reverse: drops sends and receives.
Timetable ComputeOnly(const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_LOWER_H_
