#ifndef SLUICE_PIPELINE_TRAIN_METRICS_H_
#define SLUICE_PIPELINE_TRAIN_METRICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "pipeline/audit/audits.h"
#include "pipeline/recover/recovery.h"
#include "pipeline/train/step_report.h"
#include "schedules/simulate/dealt_times.h"
#include "schedules/weight_versions.h"

namespace sluice {

// One step, as it is printed. Seconds, bytes, FLOP/s.
struct StepMetrics {
  int64_t step = 0;
  float loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double flops_per_second = 0;
  double bubble = 0;                  // measured
  double predicted_bubble = 0;        // simulated from the times measured in earlier steps
  double predicted_step_seconds = 0;  // likewise, and what the step spends outside its timetable
  // Bytes of the arenas, [rank of the world]; the MetricsKeeper's.
  absl::Span<const int64_t> peak_bytes;   // predicted when the run was compiled
  absl::Span<const int64_t> arena_bytes;  // allocated
  // Of the step's micro-batches; none where every gradient is of the weights that it changes.
  std::optional<Staleness> staleness;

  // Another group of ranks has taken the step: nobody knows its times.
  bool brought() const { return step_seconds == 0; }
};

// Turns reports into metrics, and learns from them what to predict for the next step.
class MetricsKeeper {
 public:
  explicit MetricsKeeper(const RunPlan& plan);

  // What each rank of the world has allocated; before the first step.
  void SetArenas(std::vector<int64_t> bytes) { arena_bytes_ = std::move(bytes); }

  // `step_seconds`: from the step's first instruction to its last weight update.
  StepMetrics Record(int64_t step, const StepReport& report, double lr, double step_seconds);
  // Of the gradients of a step; as it is where the timetable is synchronous.
  Staleness StalenessAt(const StepReport& report) const;
  // Of a step that another group of ranks has taken.
  StepMetrics Brought(const AgreedStep& step, double lr) const;

 private:
  void Learn(const StepReport& report, double outside);
  void Predict(StepMetrics* metrics) const;
  void AgeSteps();

  const RunPlan& plan_;
  const Timetable table_;                      // compute-only: what is simulated
  const std::optional<DealtTimetable> dealt_;  // of it, where stages have several ranks
  const double flops_per_step_;
  const double tokens_per_step_;
  std::vector<int64_t> peak_bytes_, arena_bytes_;  // [rank of the world]
  int64_t learned_ = 0;                            // steps in the means below
  StageCosts costs_;
  double outside_ = 0;
  std::vector<Staleness> staleness_;  // [step of the timetable]; empty of a synchronous one
};

// The summary's fields.
struct TrainSummary {
  int64_t steps = 0;  // that have been taken in all, resumed ones included
  // By this run, over all groups of ranks that have trained; without any, there is no loss and no
  // time.
  int64_t steps_taken = 0;
  bool interrupted = false;
  bool regroups = false;  // left after a step, so that other ranks go on
  double median_step_seconds = 0;
  double tokens_per_second = 0;
  float final_loss = 0;
  bool evaluated = false;
  double eval_loss = 0;
  double accuracy = 0;
  int64_t eval_samples = 0;
  bool hashed = false;
  uint64_t weights_hash = 0;
  std::string checkpoint;              // the last one written; empty if none
  std::optional<Staleness> staleness;  // over all steps of this run, as in StepMetrics
  std::optional<AuditCost> audits;     // so far; none where ranks do not audit each other
  double audit_share = 0;              // of the time of the steps so far
};

// "0x3f8ccccd": the bits of a loss.
std::string LossHex(float loss);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_METRICS_H_
