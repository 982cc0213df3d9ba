#ifndef SLUICE_PIPELINE_RUN_EXECUTOR_H_
#define SLUICE_PIPELINE_RUN_EXECUTOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/communicator.h"
#include "comm/progress.h"
#include "models/data/dataset.h"
#include "pipeline/run/action_clock.h"
#include "pipeline/run/audit_record.h"
#include "pipeline/run/bound_program.h"
#include "pipeline/run/finite_check.h"
#include "pipeline/run/instruction_clock.h"
#include "pipeline/run/program_places.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// One pass over a program.
struct Pass {
  Split split = Split::kTrain;
  int64_t first_micro_batch =
      0;  // index, within the split's sequence, of the first micro-batch of all replicas
  bool train = true;                           // gradients are wanted
  uint64_t seed = 0;                           // of what is dropped at random in training
  absl::Duration timeout = absl::Seconds(30);  // of every wait
  NonFinite* check_finite = nullptr;  // where to note the first bad value; null: not looked for
  // Only the first so many micro-batches of the program run; all ranks must agree. Negative: all.
  int micro_batches = -1;
  // Where the rank notes which action it is at or waits for, an idle one between passes; null:
  // nowhere. By relaxed stores.
  std::atomic<Action>* at = nullptr;
  // Where to note when each instruction runs; null: nowhere.
  InstructionClock* instructions = nullptr;
  // Where to keep what an audited micro-batch came with, and what became of it; null: nowhere.
  AuditRecord* audit = nullptr;
  // Changes a stage's weights once `micro_batch` is in its gradient (asynchronous programs).
  std::function<void(const StageUpdate& update, int micro_batch)> update = {};
};

// Runs one rank's program: nothing is decided, allocated or looked up here but what the program
// says.
class Executor {
 public:
  // `program` is the rank's training or evaluation program, `offsets` its buffers' places in the
  // state's arena.
  // `communicator` joins the ranks of the rank's pipeline, `group` those of its RankGroup (null
  // where it has one rank); both carry memory of the state's device.
  Executor(RankState* state, const RankProgram& program, const std::vector<int64_t>& offsets,
           Communicator* communicator, const Dataset* data, Communicator* group = nullptr);

  // Queues the program on the state's stream and waits for its end. On failure the status carries
  // rank, stage, micro-batch and action (Where), and every rank has been told to stop.
  absl::Status Run(const Pass& pass);

  // Of the last pass. Losses are sums over a micro-batch's rows that count; only a rank with the last layer
  // has them. Actions that did not run have no times (end 0).
  absl::Span<const double> losses() const { return losses_; }
  absl::Span<const int64_t> correct() const { return correct_; }
  // [micro-batch of all replicas] Targets that count, of the last pass.
  absl::Span<const int64_t> targets() const { return targets_; }
  // What a row's loss weighs in the gradient, of a row of that micro-batch of this pipeline.
  float loss_scale(int micro_batch) const {
    return loss_scales_[static_cast<size_t>(micro_batch / state_.plan().update_micro_batches())];
  }
  const std::vector<ActionTime>& times() const { return clock_.times(); }
  const RankProgram& program() const { return program_; }
  int world_rank() const { return state_.world_rank(); }

 private:
  absl::Status AllocateShared();
  absl::Status Reduce(const Instruction& instruction, const Pass& pass);
  absl::Status Execute(const Instruction& instruction, const Pass& pass);
  absl::Status Communicate(const Instruction& instruction, const Pass& pass);
  absl::Status Queue(const Pass& pass);
  // That the rank has come to this instruction.
  void Note(size_t instruction, const Pass& pass) const;
  // Counts the targets of the pass, and what a row's loss weighs in the gradient of each update.
  void CountTargets(const Pass& pass);
  void ExecuteCall(size_t instruction, const Pass& pass);
  // The end of the row of repeated calls that begins with instruction `first`; `first` where it is
  // no such call.
  size_t EndOfCalls(size_t first) const;
  // Whether it is a layer's call that is the same in each pass: with documents, loss_scale is not,
  // and with dropout no call is.
  bool Repeats(const Instruction& instruction) const;
  absl::Status Finish(const Pass& pass);
  // The samples of a micro-batch, given by its number among all of the split, whose targets count.
  // The last micro-batch of an evaluation has fewer where its size does not divide the number of
  // samples: the data's first ones fill it up, without targets.
  int64_t CountingSamples(Split split, int64_t micro_batch) const;
  void Load(const Instruction& instruction, const Pass& pass);
  void CallLayer(const Instruction& instruction, const Pass& pass);
  // Whether bits of its calls may be flipped on purpose (bit_flip.h).
  bool MayFlip(const Pass& pass) const;

  RankState& state_;
  const RankProgram& program_;
  BoundProgram bound_;
  const ProgramPlaces places_;
  Communicator& communicator_;
  Progress* const progress_;  // null where nobody watches the rank
  const Dataset& data_;
  std::vector<std::vector<Ticket>> sent_;      // [peer][message]
  std::vector<std::vector<Ticket>> received_;  // [peer][message]
  // What host and device both touch: losses, counts, a flag, and where samples are put together.
  DeviceMemory shared_;
  absl::Span<double> losses_;    // [micro-batch]
  absl::Span<int64_t> correct_;  // [micro-batch]
  bool* finite_ = nullptr;
  std::byte* samples_ = nullptr;         // null where they are put together in the arena
  std::vector<int64_t> samples_offset_;  // [buffer] in samples_
  ActionClock clock_;
  std::vector<Recording> recordings_;  // [instruction] of the calls from there to EndOfCalls
  std::vector<int64_t> targets_;       // [micro-batch of all replicas]
  std::vector<float> loss_scales_;     // [update of the pass]
  std::vector<std::string> ranges_;    // [action] its name, where a device queues
  absl::Status prepared_;
  Communicator* const group_;
  int current_action_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_EXECUTOR_H_
