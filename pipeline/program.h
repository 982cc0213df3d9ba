#ifndef SLUICE_PIPELINE_PROGRAM_H_
#define SLUICE_PIPELINE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/layer.h"
#include "partitioner/partition.h"
#include "schedules/timetable.h"

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
  kForward,  // the rest are calls of one layer
  kRestore,
  kBackwardInput,
  kBackwardWeight,
};

// Index of a buffer of the rank's program; kNoBuffer where a call has none.
using BufferId = int32_t;
inline constexpr BufferId kNoBuffer = -1;

struct Instruction {
  Step step = Step::kBeginAction;
  int32_t micro_batch = 0;
  int32_t index = 0;    // layer steps: into calls; actions: into actions; messages: the peer
  int32_t message = 0;  // number of the message on its edge, within the step
  BufferId buffer = kNoBuffer;  // messages and loads
};

// The buffers of one call of a layer.
struct CallBuffers {
  int32_t layer = 0;  // position within RankProgram::layers
  BufferId input = kNoBuffer;
  BufferId output = kNoBuffer;
  BufferId output_grad = kNoBuffer;
  BufferId input_grad = kNoBuffer;
  BufferId targets = kNoBuffer;
  std::vector<BufferId> tensors = {};  // as in the layer's declaration
};

// Memory that a rank needs from instruction `first` to instruction `last`, both included.
struct Buffer {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

struct RankProgram {
  int rank = 0;
  std::vector<int> layers;      // the model's layers that this rank holds, ascending
  std::vector<Action> actions;  // compute actions, in order
  std::vector<Instruction> instructions;
  std::vector<CallBuffers> calls;
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

struct ProgramRequest {
  const std::vector<LayerDecl>* layers = nullptr;  // of the whole model
  const Timetable* timetable = nullptr;            // lowered
  const Partition* partition = nullptr;            // a range of layers a stage
  std::vector<Recompute> recompute;                // a policy a stage
  int64_t batch_rows = 1;
};

// InvalidArgument when partition and timetable do not fit each other or the layers; Unimplemented
// for an operation that only a simulator understands.
absl::StatusOr<RankProgram> CompileRank(const ProgramRequest& request, int rank,
                                        const MessageWindow& window);

// What evaluation runs: the forwards of a lowered timetable and their messages, in the same order.
Timetable ForwardOnly(const Timetable& lowered);

// Proves that the programs, run together, come to an end however slow each rank is: a send
// completes once its receive has been posted, and the other way round. Internal names the ranks
// that would wait for each other.
absl::Status CheckProgress(const std::vector<RankProgram>& programs);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_PROGRAM_H_
