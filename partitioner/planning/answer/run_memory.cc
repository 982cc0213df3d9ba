#include "partitioner/planning/answer/run_memory.h"

#include <algorithm>
#include <atomic>

#include "pipeline/compile/compile_run.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice {

absl::StatusOr<RunPlan> CompileInTime(const RunRequest& request,
                                      const std::function<bool()>& stop) {
  const auto at_once = [&stop](size_t n, absl::FunctionRef<void(size_t)> work) -> absl::Status {
    std::atomic<bool> stopped = false;
    ParallelFor(n, [&](size_t i) {
      if (stop && stop()) stopped = true;
      if (!stopped) work(i);
    });
    if (!stopped) return absl::OkStatus();
    return absl::DeadlineExceededError("the bytes that a run allocates were not counted in time");
  };
  return CompileRun(request, at_once);
}

std::vector<int64_t> RunMemory(const RunPlan& run) {
  std::vector<int64_t> bytes(static_cast<size_t>(run.ranks()));
  for (int rank = 0; rank < run.world_size(); ++rank) {
    int64_t& most = bytes[static_cast<size_t>(run.pipeline_rank(rank))];
    most = std::max(most, run.arenas[static_cast<size_t>(rank)].memory.total);
  }
  return bytes;
}

absl::StatusOr<std::vector<int64_t>> RunMemory(const RunRequest& request,
                                               const std::function<bool()>& stop) {
  const absl::StatusOr<RunPlan> run = CompileInTime(request, stop);
  if (!run.ok()) return run.status();
  return RunMemory(*run);
}

}  // namespace sluice
