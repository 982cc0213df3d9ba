#ifndef SLUICE_TOOLS_TRAIN_LOG_METRICS_LOG_H_
#define SLUICE_TOOLS_TRAIN_LOG_METRICS_LOG_H_

#include <cstdint>

#include "absl/status/status.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/train/run.h"
#include "schedules/simulate/stage_costs.h"

namespace sluice {

// Where the numbers of a run are kept beside what it prints. Called from one thread, in rank 0's
// process. After an error it is not called again; the run goes on.
class MetricsLog {
 public:
  virtual ~MetricsLog() = default;
  // Before the first step of this process's ranks: `step` steps have been taken. What the log says of
  // later ones is no longer true, since the run goes on from a checkpoint before them.
  // `costs`: what the plan's stages are expected to take (TrainJob::costs).
  virtual absl::Status Begin(const RunPlan& plan, const StageCosts& costs, int64_t step) = 0;
  // Each step and each evaluation is kept once, whoever tells of it again.
  virtual absl::Status Step(const StepMetrics& metrics) = 0;
  virtual absl::Status Evaluated(const Evaluation& evaluation) = 0;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_METRICS_LOG_H_
