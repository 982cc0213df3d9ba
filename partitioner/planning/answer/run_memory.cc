#include "partitioner/planning/answer/run_memory.h"

#include <algorithm>
#include <atomic>

#include "pipeline/compile/compile_run.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice {

absl::StatusOr<std::vector<int64_t>> RunMemory(const ModelSpec& spec, const BatchShape& batch,
                                               DType dtype, OptimizerKind optimizer,
                                               const Timetable& timetable,
                                               const StageAssignment& assignment, int replicas,
                                               int zero, const Kernels& kernels,
                                               const Adaptation& adaptation, bool documents,
                                               bool mirror, const std::function<bool()>& stop) {
  const auto at_once = [&stop](size_t n, absl::FunctionRef<void(size_t)> work) -> absl::Status {
    std::atomic<bool> stopped = false;
    ParallelFor(n, [&](size_t i) {
      if (stop && stop()) stopped = true;
      if (!stopped) work(i);
    });
    if (!stopped) return absl::OkStatus();
    return absl::DeadlineExceededError("the bytes that a run allocates were not counted in time");
  };
  const absl::StatusOr<RunPlan> run = CompileRun({.spec = spec,
                                                  .batch = batch,
                                                  .dtype = dtype,
                                                  .documents = documents,
                                                  .adaptation = adaptation,
                                                  .timetable = timetable,
                                                  .partition = assignment.partition,
                                                  .recompute = assignment.recompute,
                                                  .replicas = replicas,
                                                  .zero = zero,
                                                  .mirror = mirror,
                                                  .optimizer = optimizer,
                                                  .kernels = &kernels},
                                                 at_once);
  if (!run.ok()) return run.status();
  std::vector<int64_t> bytes(static_cast<size_t>(run->ranks()));
  for (int rank = 0; rank < run->world_size(); ++rank) {
    int64_t& most = bytes[static_cast<size_t>(run->pipeline_rank(rank))];
    most = std::max(most, run->arenas[static_cast<size_t>(rank)].memory.total);
  }
  return bytes;
}

}  // namespace sluice
