#ifndef SLUICE_PIPELINE_COMPILE_PLAN_PROGRAM_H_
#define SLUICE_PIPELINE_COMPILE_PLAN_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "schedules/action.h"

namespace sluice {

// What one rank does in a step, flat: no decision is left for run time but how long to wait.
enum class Step : uint8_t {
  kBeginAction,  // of the timetable, for the clock and for error messages
  kEndAction,
  kPostReceive,
  kWaitReceive,
  kPostSend,
  kWaitSend,
  kLoadInput,  // reads the micro-batch from the data set
  kLoadTargets,
  kLoadStarts,
  kForward,  // the rest are calls of one layer
  kRestore,
  kBackwardInput,
  kBackwardWeight,
  kAddGroup,         // adds a group's gradients of one stage to the step's (index: into stages)
  kReduceGradients,  // sums gradients over the RankGroup (index: into reductions)
  kUpdateWeights,    // of one stage, in an asynchronous run (index: into updates)
};

// Index of a buffer of the rank's program; kNoBuffer where a call has none.
using BufferId = int32_t;
inline constexpr BufferId kNoBuffer = -1;

struct Instruction {
  Step step = Step::kBeginAction;
  int32_t micro_batch = 0;
  // Into calls for the steps of a layer, into actions for the begin and end of one, into stages,
  // reductions and updates as their steps say; the peer for messages.
  int32_t index = 0;
  int32_t message = 0;          // number of the message on its edge, within the step
  BufferId buffer = kNoBuffer;  // messages and loads; a reduction's work memory
};

// The buffers of one call of a layer.
struct CallBuffers {
  int32_t layer = 0;  // position within RankProgram::layers
  BufferId input = kNoBuffer;
  BufferId output = kNoBuffer;
  BufferId output_grad = kNoBuffer;
  BufferId input_grad = kNoBuffer;
  BufferId targets = kNoBuffer;
  BufferId starts = kNoBuffer;
  std::vector<BufferId> tensors = {};  // as in the layer's declaration
  int32_t slot = 0;                    // which of the kept versions of the weights it reads
  bool second_gradient = false;        // W writes the accumulator of the groups after the first
  bool accumulate = false;             // W adds to the gradients instead of overwriting them
  // Where W writes where gradients are sharded: the layer's, one parameter behind the other. Else
  // they have a place of their own in the arena.
  BufferId gradients = kNoBuffer;
};

// A stage on its rank: local layers first..last.
struct RankStage {
  int stage = 0;
  int first = 0;
  int last = 0;
  int slots = 1;  // versions of its weights that are kept at a time
};

// One sum over a RankGroup of the gradients of local layers first..last: every rank of it gets the
// sum of its own slices.
struct GradientReduction {
  int first = 0;
  int last = 0;
  bool starts = false;             // the sum; else this group's is added to that of those before
  bool second_gradient = false;    // as in CallBuffers
  bool gather = false;             // then every rank gets all slices
  BufferId gradients = kNoBuffer;  // likewise; of one layer then
  int64_t work_elements = 0;       // of the instruction's buffer
};

// One change of a stage's weights within an asynchronous run.
struct StageUpdate {
  int stage = 0;   // into RankProgram::stages
  int number = 0;  // of the stage's updates in this program, from 0
  int from = 0;    // slot of the newest weights
  int to = 0;      // slot that the new ones take; the same where only one version is kept
};

// Memory that a rank needs from instruction `first` to instruction `last`, both included.
struct Buffer {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

struct RankProgram {
  int rank = 0;
  std::vector<int> layers;        // the model's layers that this rank holds, stage by stage
  std::vector<RankStage> stages;  // of the rank, ascending
  std::vector<Action> actions;    // compute actions, in order
  std::vector<Instruction> instructions;
  std::vector<CallBuffers> calls;
  std::vector<GradientReduction> reductions;  // where a group has several ranks
  // Members of the rank's stage, itself included, whose reductions meet its own; empty where the
  // other ranks of the group belong to other pipelines, which run the same program.
  std::vector<int> reduces_with;
  std::vector<StageUpdate> updates;  // of an asynchronous timetable
  std::vector<Buffer> buffers;
  // Messages of a step on the edge to (from) each rank.
  std::vector<int> sends;
  std::vector<int> receives;
};

// How far communication may run ahead of computation; more costs memory.
struct MessageWindow {
  int receives = 2;  // receives posted on an edge beyond the last one waited for
  int sends = 2;  // sends on an edge that may be under way before the next one waits for the oldest
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PLAN_PROGRAM_H_
