#ifndef SLUICE_TOOLS_TRAIN_RUNNING_REPLANNED_RUN_H_
#define SLUICE_TOOLS_TRAIN_RUNNING_REPLANNED_RUN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "models/device/instant.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/recover/recovery.h"
#include "pipeline/trace/trace_group.h"
#include "pipeline/train/run.h"
#include "tools/train/replanning/measured_speeds.h"
#include "tools/train/running/compiled_job.h"
#include "tools/train/running/replan_watch.h"
#include "tools/train/running/run_output.h"
#include "tools/train/train_question.h"

namespace sluice {

// A run of processes that stay, and keep their ranks: where these turn out not to be equally fast,
// they divide the work anew between two steps. Each compiles the plan that rank 0 asks for; where one
// cannot, or lacks the memory for it beside the old one, all keep what they do.
class ReplannedRun {
 public:
  // InvalidArgument where --replan cannot do anything in such a run.
  static absl::Status Check(const TrainQuestion& question, const RunPlan& plan);

  // `output`: of rank 0, else null. `set_up` makes the options of a new plan those of this process,
  // `open_devices` connects its devices for it. All must outlive this.
  ReplannedRun(const TrainQuestion& question, RunOutput* output,
               std::function<void(TrainOptions*)> set_up,
               std::function<absl::Status(CompiledJob*)> open_devices, Communicator& world);

  // As TrainRank, with the plan of `*compiled`, which afterwards is that of the last step. `stop`: as there.
  absl::StatusOr<TrainResult> Train(const std::atomic<bool>* stop, CompiledJob* compiled);

  // With Watching::trace, of rank 0: what all ranks did under each plan.
  const std::vector<TraceGroup>& trace() const { return trace_; }

 private:
  TrainEvents Events(const CompiledJob& compiled);
  void KeepTrace(const RunPlan& plan, std::vector<TraceEvent> events);
  absl::Status GoOver(CompiledJob* compiled);
  absl::StatusOr<CompiledJob> Prepare(const MeasuredSpeeds& speeds, const CompiledJob& last);
  absl::StatusOr<int64_t> HostBytes(const RunPlan* next, const CompiledJob& last, Instant deadline);

  const TrainQuestion& question_;
  RunOutput* const output_;
  const std::function<void(TrainOptions*)> set_up_;
  const std::function<absl::Status(CompiledJob*)> open_devices_;
  Communicator& world_;
  HeldState held_;
  std::optional<StartingPoint> resumed_;
  MeasuredSpeeds speeds_;  // that the present plan was compiled for
  int64_t plans_ = 0;      // so far
  std::atomic<bool> asked_{false};
  // Of rank 0.
  std::optional<ReplanWatch> watch_;
  std::string wanted_;  // MeasuredSpeeds as a text
  int64_t vouched_step_ = -1;
  std::vector<TraceGroup> trace_;
  std::vector<size_t> traced_;  // [rank] events in trace_
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_RUNNING_REPLANNED_RUN_H_
