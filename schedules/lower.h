#ifndef SLUICE_SCHEDULES_LOWER_H_
#define SLUICE_SCHEDULES_LOWER_H_

#include <limits>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"

namespace sluice {

struct LowerOptions {
  static constexpr int kAllThatArrive = std::numeric_limits<int>::max();

  // How many received tensors (inputs and gradients) may wait on a rank for the action that uses
  // them; a rank needs that many receive buffers. By default a message goes as soon as it is made,
  // and the table takes as long as without messages, whatever the costs. With a limit, messages
  // are received in the order in which they are used, each as early as the limit allows; 1 is
  // "just before its use". At least 1; an overlapped pair may take two inputs at once, whatever
  // the limit.
  int most_waiting = kAllThatArrive;
};

// Inserts the sends and receives that a compute-only timetable implies: SEND after the action that
// makes the data, RECV before the one that uses them, none between stages of one rank. The result
// is deadlock-free for blocking rendezvous sends and has the same message order on both ends of
// every directed rank pair. Idle cells are dropped. Linear in the number of actions, unless there is
// a limit (then messages are sorted). InvalidArgument when `timetable` is already lowered, is not
// sound, or the options do not fit it.
absl::StatusOr<Timetable> LowerTimetable(const Timetable& timetable,
                                         const LowerOptions& options = {});

// The reverse: removes sends, receives, and the waits of sends.
Timetable ComputeOnly(const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_LOWER_H_
