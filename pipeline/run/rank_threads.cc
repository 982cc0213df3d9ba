#include "pipeline/run/rank_threads.h"

#include <pthread.h>
#include <sched.h>

#include <mutex>
#include <thread>
#include <vector>

#include "models/device/out_of_memory.h"
#include "models/kernels/kernel_threads.h"

namespace sluice {
namespace {

std::vector<int> UsableCoreList() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// Threads that a rank's kernels start later inherit its cores.
void PinRank(int rank, int threads, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int t = 0; t < threads; ++t) CPU_SET(cores[static_cast<size_t>(rank * threads + t)], &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);  // a hint: a refusal costs speed only
}

}  // namespace

void PinRankThreads(int local_rank, int threads, bool pin) {
  const std::vector<int> cores = UsableCoreList();
  if (!pin || local_rank < 0 || static_cast<int>(cores.size()) < (local_rank + 1) * threads) return;
  PinRank(local_rank, threads, cores);
}

int CoresForRanks() { return static_cast<int>(UsableCoreList().size()); }

absl::Status RunRanks(
    InProcessGroup& group, int ranks, const RankThreadOptions& options,
    const std::function<absl::Status(int rank, Communicator& communicator)>& body) {
  const std::vector<int> cores = UsableCoreList();
  const bool pin =
      options.pin && static_cast<int>(cores.size()) >= ranks * options.threads_per_rank;
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
      if (pin) PinRank(rank, options.threads_per_rank, cores);
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
