#ifndef SLUICE_PIPELINE_TRAIN_RANK_TRAINER_H_
#define SLUICE_PIPELINE_TRAIN_RANK_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/collectives/sub_group.h"
#include "comm/communicator.h"
#include "pipeline/audit/audits.h"
#include "pipeline/recover/recovery.h"
#include "pipeline/run/executor.h"
#include "pipeline/state/asynchronous.h"
#include "pipeline/state/gradient_norms.h"
#include "pipeline/trace/trace_recorder.h"
#include "pipeline/train/background_save.h"
#include "pipeline/train/run.h"
#include "pipeline/train/run_checkpoint.h"
#include "pipeline/train/slow_stage.h"
#include "pipeline/train/start/agreement.h"
#include "pipeline/train/state_check.h"

namespace sluice {

// What the ranks of a run share, read-only.
struct RunContext {
  const RunPlan* plan = nullptr;
  const Dataset* data = nullptr;
  const TrainOptions* options = nullptr;
  const TrainEvents* events = nullptr;
  const std::atomic<bool>* stop = nullptr;
  // May be null: asks the ranks to leave their group after a step.
  const std::atomic<bool>* regroup = nullptr;
  AgreedStep last = {};      // the last step already taken
  bool shows_last = false;   // it has not been shown yet
  int64_t vouched_step = 0;  // the last step for which audits vouch, or what the run began with
  RunHistory history = {};   // of this run, what earlier groups of ranks have done
  bool reads_frozen = true;  // from the disk, or the seed: no rank has just what it had
  // Of the weights that the resumed adapter is for; "": not known.
  std::string base_hash = {};
  std::optional<ResumedRun> resumed = {};
  std::vector<RunTrait> traits = {};  // what this process has, to be compared with the other ranks'
};

// The training loop of one rank. Every rank runs the same loop; they meet in the pipeline's
// messages, in sums over the replicas, and once a step to agree on loss, gradient norm and whether
// to go on.
class RankTrainer {
 public:
  // `state` holds weights and optimizer state to start from. Both communicators join the ranks of
  // all replicas: `world` by ordinary memory, `tensors` by memory of the state's device. On a CPU
  // they are the same. `at`: as in Pass.
  RankTrainer(const RunContext& context, RankState* state, Communicator* world,
              Communicator* tensors, std::atomic<Action>* at);
  // Members point to each other.
  RankTrainer(const RankTrainer&) = delete;
  RankTrainer& operator=(const RankTrainer&) = delete;

  absl::Status Run();

  // Says what `held`, whose state is this rank's, is after Run, whatever the end of that.
  void Hold(HeldState* held) const;

  // Of rank 0.
  const TrainSummary& summary() const { return summary_; }
  const std::vector<TraceEvent>& trace() const { return trace_.events(); }

 private:
  struct SaveUnderWay {
    SavePoint point;
    int64_t began = 0;       // SteadyNanoseconds
    int64_t ended = 0;       // likewise, once the saver is done
    bool awaited = false;    // by AwaitSaver
    std::string not_finite;  // a tensor of the state; the saver writes it before it has read all
    std::unique_ptr<BackgroundSave> saver;
  };

  // Steps that the timetable covers without a pause, from `step` to `until` at most: 1 of a
  // synchronous one.
  int64_t StepsToPause(int64_t step, int64_t until) const;
  // The `count` steps after `step`, asynchronous, and their reports.
  absl::StatusOr<std::vector<StepReport>> Window(int64_t step, int64_t count);
  // Says that an asynchronous step was not finite. Never OK.
  absl::Status Diverged(int64_t step, const StepReport& report);
  absl::StatusOr<std::vector<StepReport>> OneStep(int64_t step);
  // One step: returns its report, the same on every rank.
  absl::StatusOr<StepReport> Step(int64_t step);
  // What is wrong, in words, from where it began and the tensor of the state that is not finite.
  using Description = std::function<absl::Status(const NonFinite& first, const std::string& state)>;
  absl::Status ExchangeGradients(int64_t step);
  // Whether messages have arrived that a device's work waited for; to be asked once that is done.
  absl::Status FailureOfQueued() const;
  absl::Status AwaitQueued() const;
  // After the pass of an audited step. DataLoss, as GiveUp makes it, where a rank computes wrong.
  absl::Status Audit(int64_t step, const Pass& pass);
  // The last step for which audits vouch, where that of `step` is not passed.
  int64_t VouchedAt(int64_t step) const;
  void Vouch(int64_t step);
  SavePoint PointOf(int64_t step) const;
  // Says that weights have changed that nobody had written to. Never OK.
  absl::Status BrokenWeight(int64_t step, const StepReport& report);
  // Runs a pass once more, whose loss or gradient was not finite, and says where the first bad value
  // came from; `step` good steps went before. Never OK.
  absl::Status Diagnose(Executor& executor, Pass pass, int64_t step, const Description& describe);
  absl::Status Evaluate(int64_t step);
  absl::Status RunSteps();
  // Before the first step: what the ranks have to agree on.
  absl::Status Begin();
  // Takes the steps of `portion`, and what is to be done after them. `last`: nothing follows.
  absl::Status RunPortion(const Portion& portion, bool last);
  absl::Status MeasureLinks();
  absl::Status SavePortion(const std::string& directory, bool must);
  // One portion after the other, as TrainOptions::portions says.
  absl::Status RunPortions();
  // Saves at once, to `directory`. `must`: nobody saves again after it, so it has to succeed.
  absl::Status SaveNow(int64_t step, const std::string& directory, bool must);
  // Saves while the next step runs, where that does not change what is saved before its end.
  absl::Status Save(int64_t step);
  // What the saver's thread does, over a communicator that it alone uses.
  absl::StatusOr<SaveOutcome> RunSaver(Communicator& world, SaveUnderWay& under_way,
                                       const std::function<void()>& on_read);
  // Before anything changes the state: waits until a save under way has read all of it. All ranks
  // call it together, since some may wait for long.
  absl::Status AwaitSaver();
  // Waits for the end of a save under way, so that what is on the disk stays as it is from now on. All
  // ranks call it together.
  absl::Status EndSaver();
  // The same for this rank alone: tells how a save under way has ended, if there is one.
  absl::Status FinishSave();
  absl::StatusOr<SaveOutcome> EndOfSave() const;
  // `outcome`: of the save of `step` to `directory`.
  void Saved(int64_t step, const std::string& directory, const SaveOutcome& outcome);
  // FailedPrecondition on all ranks where the data of one have changed since the run began.
  absl::Status CheckData(int64_t step);
  absl::Status AfterStep(int64_t step, const StepReport& report, double seconds);
  // What is to be done after `step` and has not been done.
  absl::Status SaveAndEvaluate(int64_t step, bool evaluates);
  // Whether --eval-every asks for an evaluation after `step` that nobody has made.
  bool EvaluationIsDue(int64_t step) const;
  // Shows a step that ranks which are gone have taken but not shown.
  void ShowBroughtStep();
  Asked AskedNow() const;
  void Finish(int64_t step);
  Pass TrainPass(int64_t step) const;
  // That what is frozen is what it was when the run was saved, and when it began.
  absl::Status CheckBase();
  absl::Status Hash();
  absl::Status Leave();
  // Brings what every rank has allocated to all.
  absl::Status GatherArenas();
  absl::Status AfterTheActions(int64_t step, const absl::Status& status) const;
  bool leader() const { return world_.rank() == 0; }

  const RunContext& context_;
  const RunPlan& plan_;
  const TrainOptions& options_;
  RankState& state_;
  std::atomic<Action>* const at_;
  Communicator& world_;
  // The ranks of this one's pipeline, by device memory, and those of its RankGroup, by device memory
  // and by ordinary memory. Where there is one pipeline it is the world; a group that is not needed
  // is null.
  std::unique_ptr<SubGroup> pipeline_group_;
  std::unique_ptr<SubGroup> tensor_group_;
  std::unique_ptr<SubGroup> host_group_;
  Communicator& pipeline_;
  Communicator* const group_;
  Executor train_;
  Executor evaluate_;
  AsynchronousUpdates updates_;
  GradientNorms gradient_norms_;
  std::vector<double> norms_;  // [canonical parameter]
  StepReporter reporter_;
  MetricsKeeper metrics_;
  SlowStageWatch slow_stages_;
  StateCheck state_check_;
  Audits audits_;
  // Of what is frozen; "" where nothing is, or nobody would keep or compare it.
  std::string frozen_hash_;
  double step_seconds_ = 0;  // of all steps of this group of ranks, whatever the portion
  TrainSummary summary_;
  int64_t saved_step_;        // to the run's own directory,
  std::string saved_path_;    // as this checkpoint
  absl::Status failed_save_;  // why the end of a portion was not saved
  std::unique_ptr<SaveUnderWay> saving_;
  TraceRecorder trace_;
  std::vector<PastStep> past_;  // the steps up to last_ that the summary is of
  AgreedStep last_;             // the last step taken, whose update the state has had
  bool has_next_gradients_ = false;
  bool has_mirror_ = false;  // what it mirrors is of the same step
  bool torn_ = false;        // the state is between two steps
  int64_t shown_step_ = -1;
  int64_t evaluated_step_;    // the last one after which the run was evaluated
  bool stops_ = false;        // after the last step, so that an evaluation is left for later
  int64_t vouched_step_ = 0;  // the last one for which audits vouch
  LyingRank lie_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_RANK_TRAINER_H_
