#include "pipeline/run/rank_threads.h"

#include <mutex>
#include <thread>
#include <vector>

#include "models/device/out_of_memory.h"
#include "models/kernels/kernel_threads.h"

namespace sluice {
namespace {

// Threads that a rank's kernels start later inherit its cores. A refusal costs speed only.
void PinRank(const CoreSet& cores) {
  if (cores.any()) KeepThreadTo(cores);
}

}  // namespace

CoreSet CoresOfRank(const CoreSet& usable, int local_rank, int threads) {
  CoreSet own;
  if (local_rank < 0 || static_cast<int>(usable.count()) < (local_rank + 1) * threads) return own;
  int at = 0;
  for (const int core : CoreNumbers(usable)) {
    if (at++ / threads == local_rank) own.set(static_cast<size_t>(core));
  }
  return own;
}

void PinRankThreads(int local_rank, int threads, bool pin) {
  if (pin) PinRank(CoresOfRank(UsableCores(), local_rank, threads));
}

absl::Status RunRanks(
    InProcessGroup& group, int ranks, const RankThreadOptions& options,
    const std::function<absl::Status(int rank, Communicator& communicator)>& body) {
  const CoreSet cores = UsableCores();
  const bool pin =
      options.pin && static_cast<int>(cores.count()) >= ranks * options.threads_per_rank;
  // OpenMP ends the process where it cannot start those of a rank.
  if (options.threads_per_rank > 1) {
    absl::Status enough = CheckThreads("the run", ranks * options.threads_per_rank);
    if (!enough.ok()) return enough;
  }
  std::mutex mutex;
  absl::Status first_error;
  const auto fail = [&](int rank, const absl::Status& status) {
    {
      const std::lock_guard lock(mutex);
      if (first_error.ok()) first_error = status;
    }
    group.communicator(rank).Abort(status);
  };
  std::vector<std::thread> threads(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto run = [&, rank] {
      if (pin) PinRank(CoresOfRank(cores, rank, options.threads_per_rank));
      const KernelThreads kernel_threads(options.threads_per_rank);
      const absl::Status status =
          OrExhausted("a rank was running", [&] { return body(rank, group.communicator(rank)); });
      if (!status.ok()) fail(rank, status);
    };
    const absl::Status started =
        StartThread("starting a rank", run, &threads[static_cast<size_t>(rank)]);
    if (started.ok()) continue;
    fail(rank, started);  // those that have been started wait for it
    break;
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return first_error;
}

}  // namespace sluice
