#ifndef SLUICE_PIPELINE_STATE_ROUNDS_H_
#define SLUICE_PIPELINE_STATE_ROUNDS_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "models/device/instant.h"

namespace sluice {

// Keeps ranks together that work, for longer than any time-out maybe, on what they must finish
// together, such as files. Every second all of them meet; a rank that does not come is missed by
// the time-out, however long the work takes. Every rank of `world` makes one and calls Finish.
class Rounds {
 public:
  Rounds(Communicator* world, absl::Duration timeout);

  // To be called between pieces of work, which take much less than the time-out each.
  absl::Status Tick();
  // Communicator's waits, without a deadline of their own.
  absl::Status WaitSend(int to, Ticket ticket);
  absl::Status WaitReceive(int from, Ticket ticket);
  // Runs `work`, which may block for any time and touches nothing of the communicator, on a thread
  // of its own.
  absl::Status Do(const std::function<absl::Status()>& work);
  // The same for work whose thread has to show progress (comm/progress.h) where that of this rank
  // is watched: it calls `next` between pieces, which take much less than the time-out each, and
  // ends where that is not OK. `doing`, a literal: "flushes a checkpoint".
  using Pieces = std::function<absl::Status(const std::function<absl::Status()>& next)>;
  absl::Status DoInPieces(const char* doing, const Pieces& work);
  // This rank is done; returns once all are.
  absl::Status Finish();
  // The same, and tells the other ranks `word`, a number of at least 0; `words` are those of all
  // ranks.
  absl::Status Finish(double word, std::vector<double>* words);

 private:
  // `done`: 0 before this rank is done, then 1 more than its word.
  absl::Status Meet(double done);
  absl::Status MeetIfLate(const absl::Status& waited);

  Communicator& world_;
  const absl::Duration timeout_;
  const absl::Duration period_;
  Instant next_;
  std::vector<double> done_;  // [rank], as of the last meeting
  bool all_done_ = false;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_ROUNDS_H_
