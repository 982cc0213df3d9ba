#include "pipeline/run/rank_threads.h"

#include <pthread.h>
#include <sched.h>

#include <mutex>
#include <thread>
#include <vector>

#include "pipeline/compile/plan/kernel_threads.h"

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
  std::mutex mutex;
  absl::Status first_error;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (pin) PinRank(rank, options.threads_per_rank, cores);
      const KernelThreads kernel_threads(options.threads_per_rank);
      Communicator& communicator = group.communicator(rank);
      absl::Status status = body(rank, communicator);
      if (status.ok()) return;
      {
        const std::lock_guard lock(mutex);
        if (first_error.ok()) first_error = status;
      }
      communicator.Abort(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return first_error;
}

}  // namespace sluice
