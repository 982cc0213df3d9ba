#ifndef SLUICE_PIPELINE_RUN_RANK_THREADS_H_
#define SLUICE_PIPELINE_RUN_RANK_THREADS_H_

#include <functional>

#include "absl/status/status.h"
#include "comm/local/in_process.h"
#include "comm/membership/core_set.h"

namespace sluice {

struct RankThreadOptions {
  int threads_per_rank = 1;
  // Keeps each rank on cores of its own, where this process may use enough of them.
  bool pin = true;
};

// Runs `body` for every rank of `group`, each on a thread of its own, and waits for all of them. An
// error of one rank aborts the group, and so does a rank whose memory has run out or whose thread
// cannot be started (ResourceExhausted). Returns the first error by time.
absl::Status RunRanks(
    InProcessGroup& group, int ranks, const RankThreadOptions& options,
    const std::function<absl::Status(int rank, Communicator& communicator)>& body);

// Those of the `usable` cores that the `local_rank`-th rank of a machine has for its threads, where
// there are enough for it; else none, as for a local rank below 0.
CoreSet CoresOfRank(const CoreSet& usable, int local_rank, int threads);

// Where a process is one rank, the `local_rank`-th of its machine: keeps the calling thread, and
// those it starts, on cores of its own where there are enough and `pin` says so. Does nothing for a
// local rank below 0, and where a launcher has bound the process already.
void PinRankThreads(int local_rank, int threads, bool pin);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_RANK_THREADS_H_
