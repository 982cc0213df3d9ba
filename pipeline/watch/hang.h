#ifndef SLUICE_PIPELINE_WATCH_HANG_H_
#define SLUICE_PIPELINE_WATCH_HANG_H_

#include "absl/status/status.h"

namespace sluice {

// A rank that hangs: one of its threads makes no progress.
struct Hang {
  // For people: DeadlineExceeded, or with the code of the failure with which the run had ended
  // before. Carries Where, whose rank is the one that hangs. The message holds the thread's stack.
  absl::Status status;
  int rank = 0;
  // Whether the ranks had been told of another failure before; the other processes report that one.
  bool after_failure = false;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_WATCH_HANG_H_
