#ifndef SLUICE_SCHEDULES_CHECK_VALIDATE_H_
#define SLUICE_SCHEDULES_CHECK_VALIDATE_H_

#include <vector>

#include "absl/status/status.h"
#include "schedules/check/defect.h"
#include "schedules/timetable.h"

namespace sluice {

// Proves that a timetable can be executed and computes each gradient exactly once, in one order:
//  - every (stage, micro-batch) has one F, and one B or one I and one W, on the rank that holds
//    the stage;
//  - along each rank, F before B/I before W of the same (stage, micro-batch);
//  - over all ranks, the rows together with the data dependencies have no cycle;
//  - weight gradients (B or W) of a stage come in micro-batch order, or all stages have the same
//    other order (see sum_order.h);
//  - an OPTIMIZER_STEP of a synchronous table comes after all gradients of its stage; in an
//    asynchronous one each update covers exactly its micro-batches, forward and backward of a
//    micro-batch use the same weights, and double buffering never needs a third version;
//  - if lowered: each send has its receive on the neighbouring stage's rank and the reverse, the
//    order of messages on every directed rank pair is the same on both sides (channels are FIFO),
//    data are received before they are used and sent after they are made, and no deadlock is
//    possible when a send blocks until its receive is reached.
// Returns all defects found (at most `limit`), and none when the timetable is sound; where one
// defect explains others, it comes first. Linear in the number of actions.
std::vector<Defect> FindDefects(const Timetable& timetable, int limit = 100);

// OK, or InvalidArgument with all defects on one line, as messages are printed.
absl::Status ValidateTimetable(const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_CHECK_VALIDATE_H_
