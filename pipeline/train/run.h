#ifndef SLUICE_PIPELINE_TRAIN_RUN_H_
#define SLUICE_PIPELINE_TRAIN_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/communicator.h"
#include "comm/link_probe.h"
#include "models/device/device.h"
#include "pipeline/checkpoint/files/hyper_parameters.h"
#include "pipeline/checkpoint/files/model_files.h"
#include "pipeline/checkpoint/saving/save_outcome.h"
#include "pipeline/checkpoint/saving/weight_shards.h"
#include "pipeline/state/optimizer.h"
#include "pipeline/trace/trace_event.h"
#include "pipeline/trace/trace_parts.h"
#include "pipeline/train/metrics.h"
#include "pipeline/train/portion.h"
#include "pipeline/train/slow_stage.h"
#include "pipeline/watch/hang.h"
#include "schedules/action.h"

namespace sluice {

// The device that a rank of this process runs on, and how its tensors travel.
struct RankDevice {
  Device* device = nullptr;
  // Joins all ranks of the run by messages of the device's memory, ordered on `stream`. `world`
  // joins them by ordinary memory.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(Stream stream, Communicator* world)>
      connect;
};

// What is trained, beside the data and the model.
struct Training {
  int64_t steps = 100;  // in all; a resumed run goes on to this number
  OptimizerOptions optimizer;
  // Those of `optimizer` and `steps` that somebody asked for. A resumed run takes the others from
  // its checkpoint, `steps` only where the learning rate follows a cosine.
  GivenHyperParameters given;
  uint64_t seed = 1;
};

// Where a run starts from, and where it is kept.
struct Saving {
  std::string directory;        // empty: nothing is saved
  int64_t every = 0;            // steps; 0: only at the end
  int keep = kCheckpointsKept;  // the newest checkpoints that are kept
  std::string resume;           // a checkpoint to go on from
  std::string init;             // weights to start from, as OpenModelWeights takes them
  bool init_starts = false;     // `init` is for a new run alone: weights of `resume` go before it
  std::string adapter;          // PEFT's, to start from; empty: fresh matrices
  bool saves_adapter = false;   // an adapter alone is saved, and `init` is what it is for
  std::string data_path;        // kept in checkpoints
  // Of the model's folder, where it has one; a run that goes on from a checkpoint takes those.
  std::shared_ptr<const ModelFiles> model_files = {};
  int64_t shard_bytes = kShardBytes;  // the most of a file of weights
};

// What a checkpoint of the run is of no use without: `init`, where an adapter alone is saved.
inline std::string BaseOf(const Saving& saving) { return saving.saves_adapter ? saving.init : ""; }

// How a run is watched while it goes on.
struct Watching {
  absl::Duration timeout = absl::Seconds(30);  // of every wait for another rank
  int64_t eval_every = 0;                      // steps; 0: only at the end
  // 0: the whole validation split.
  int64_t eval_micro_batches = 0;
  bool trace = false;            // keep what every rank does when,
  TracedSteps trace_steps = {};  // of these steps
  // Of TrainMember: where to leave that, step by step; null: with TrainResult.
  TraceParts* trace_parts = nullptr;
  // Where TrainRank's rank notes which action it is at or waits for, an idle one between passes,
  // for a thread that speaks for it; null: nowhere.
  std::atomic<Action>* at = nullptr;
  // Called, on a thread of its own, with the first rank of this process that hangs, once all ranks
  // have been told to stop. A thread that hangs cannot be ended, and TrainRank and TrainInProcess
  // do not return before it does, so this is expected to end the process. Empty: nobody watches. A
  // run of one rank is never watched, since no rank waits for it.
  std::function<void(const Hang&)> on_hang = {};
};

// Where the ranks of this process run.
struct Running {
  bool pin_threads = true;  // one core per rank, where there are enough
  uint64_t program = 0;     // a hash of the program: all ranks must run the same
  // Of the ranks of this process, in order; empty: all on the CPU, whose kernels are the plan's.
  std::vector<RankDevice> devices;
  // A name of the algorithms that GPUs' products were told to take; empty: the usual ones.
  std::string algorithms = {};
};

struct TrainOptions {
  Training training;
  Saving saving;
  Watching watching;
  Running running;
  // Null: the run takes all its steps, saves, evaluates and ends. Else what this says, a portion
  // after the other: it takes no step of its own accord. It saves to `saving.directory`, and
  // evaluates where `watching.eval_every` is given, also when its last step is reached. Not for
  // TrainMember.
  Portions* portions = nullptr;
};

struct Evaluation {
  int64_t step = 0;
  double loss = 0;
  double accuracy = 0;
  int64_t samples = 0;
};

// A run that goes on from a checkpoint.
struct ResumedRun {
  int64_t step = 0;          // steps already taken
  int64_t steps = 0;         // that it goes on to
  bool from_memory = false;  // of the processes of an earlier group, not from a checkpoint
  // A line for each thing in which it was asked to be another than the one that was saved.
  std::vector<std::string> differences = {};
};

// What a step has taken, of a synchronous run.
struct StageTimes {
  int64_t step = 0;
  double step_seconds = 0;
  // [StagesOnRanks] of a micro-batch's actions, in the mean over the step.
  absl::Span<const double> stage_seconds;
};

// What a run tells while it goes on; called on rank 0's thread between steps. Each may be empty.
struct TrainEvents {
  std::function<void(const ResumedRun&)> on_resume;  // before the first step, of a resumed run only
  std::function<void(int64_t step)> on_begin =
      {};  // before the first step, `step` having been taken
  std::function<void(const StepMetrics&)> on_step;
  std::function<void(const Evaluation&)> on_evaluation;   // where a target counts
  std::function<void(const SaveOutcome&)> on_checkpoint;  // one that was saved
  // Of a run with audits: what ranks hold, and have saved, of the steps up to `step` is as right as
  // audits can tell. Before the first step, and where an audit was passed.
  std::function<void(int64_t step)> on_vouched = {};
  // A checkpoint could not be written; the run goes on without it.
  std::function<void(const absl::Status&)> on_failed_checkpoint;
  std::function<void(const SlowStage&)> on_slow_stage;
  std::function<void(const StageTimes&)> on_stage_times = {};
  // Whether the ways between ranks should be measured after this step, and what was found (ProbeLinks).
  std::function<bool()> wants_links = {};
  std::function<void(const std::vector<MeasuredLink>&)> on_links = {};
};

struct TrainResult {
  TrainSummary summary;
  std::vector<TraceEvent> trace;  // with Watching::trace
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_RUN_H_
