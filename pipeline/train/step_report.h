#ifndef SLUICE_PIPELINE_TRAIN_STEP_REPORT_H_
#define SLUICE_PIPELINE_TRAIN_STEP_REPORT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/run/executor.h"
#include "schedules/simulate/simulate.h"

namespace sluice {

// What a rank was asked from outside to do after the step.
enum class Asked : uint8_t {
  kNothing,
  kProbe,    // to measure the ways between ranks
  kRegroup,  // to leave this group of ranks with what it holds
  kStop,
};

// What all ranks know of a step once it is computed, and before the weights change.
struct StepReport {
  float loss = 0;        // mean over targets that count
  double loss_sum = 0;   // over them, in micro-batch order
  int64_t targets = 0;   // those that count
  double grad_norm = 0;  // over all parameters in canonical order
  int64_t correct = 0;
  Asked asked = Asked::kNothing;  // the most that any rank was asked
  // Seconds of the timetable's run.
  double makespan = 0;  // from the first action's start to the last one's end, over all ranks
  double busy = 0;      // of all actions, over all ranks
  StageCosts costs;     // mean seconds of each (op, stage); sends cost nothing
  // Mean seconds that each stage's actions of a micro-batch take together: [StagesOnRanks].
  std::vector<double> rank_seconds;

  // The first rank whose weights are not what its last update left, and the first parameter of
  // those, in canonical order; -1: none.
  int broken_rank = -1;
  int broken_weight = -1;

  int window_step = 0;  // which of the pass's steps it is, from 0

  // 1 - busy / (ranks * makespan).
  double bubble(int ranks) const { return makespan > 0 ? 1 - busy / (ranks * makespan) : 0; }
};

// Gathers the parts of a step that the ranks of all replicas have into one report, equal on every
// rank. Sums run in a fixed global order, whichever rank holds what.
class StepReporter {
 public:
  // `communicator` below joins the whole world.
  StepReporter(const RunPlan& plan, int parameter_count);

  // Learns how far this machine's clock is ahead of rank 0's, to about the latency of a barrier;
  // times of ranks on one machine are compared as they are. Before the first step.
  absl::Status AlignClocks(Communicator& communicator, absl::Duration timeout);
  // Seconds that this rank's clock is ahead of rank 0's; 0 on the same machine.
  double clock_ahead() const { return clock_ahead_; }

  // The parameter of this rank that its next reports call broken; -1: none.
  void SetBrokenWeight(int parameter) { broken_weight_ = parameter; }

  // `norms`: sums of squares by canonical index, 0 where this rank does not hold the parameter; may
  // be empty (evaluation). Losses of the first `micro_batches` of all replicas count (all by
  // default).
  absl::StatusOr<StepReport> Gather(const Executor& executor, absl::Span<const double> norms,
                                    Asked asked, Communicator& communicator, absl::Duration timeout,
                                    int64_t micro_batches = -1);
  // The same for a pass over the first `steps` steps of a timetable of several: a report each.
  // Times are the pass's, shared out evenly. `norms`: [step][canonical index].
  absl::StatusOr<std::vector<StepReport>> GatherSteps(const Executor& executor,
                                                      absl::Span<const double> norms, Asked asked,
                                                      Communicator& communicator,
                                                      absl::Duration timeout, int64_t steps);

 private:
  // Who has a micro-batch.
  struct Place {
    size_t replica = 0;
    size_t local = 0;  // its number there
  };
  static std::vector<Place> PlacesOf(const RunPlan& plan);

  absl::Status Exchange(const Executor& executor, absl::Span<const double> norms, Asked asked,
                        Communicator& communicator, absl::Duration timeout);
  void Encode(const Executor& executor, absl::Span<const double> norms, Asked asked);
  StepReport DecodePass() const;
  // Adds losses of `count` micro-batches and the norm of step `step`.
  void DecodeStep(const Executor& executor, size_t step, size_t count, StepReport* report) const;
  double MicroBatchSeconds(const StageOnRank& at) const;
  double Sum(size_t slot) const;
  double SumOf(size_t replica, size_t slot) const;

  const size_t stages_;
  const std::vector<StageOnRank> stages_on_ranks_;
  const std::vector<Place> places_;  // [micro-batch of all replicas]
  const size_t pipeline_ranks_;
  const size_t micro_batches_;       // of the timetable, each replica
  const size_t step_micro_batches_;  // of a step, all replicas
  const size_t steps_;
  const size_t parameters_;
  double clock_ahead_ = 0;  // seconds
  int broken_weight_ = -1;
  std::vector<double> mine_;
  std::vector<double> all_;  // [rank][slot]
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_STEP_REPORT_H_
