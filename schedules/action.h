#ifndef SLUICE_SCHEDULES_ACTION_H_
#define SLUICE_SCHEDULES_ACTION_H_

#include <cstdint>
#include <string>

namespace sluice {

// What a rank can do in one slot of its timetable. The letters are PyTorch's
// (torch.distributed.pipelining).
enum class Op : uint8_t {
  kIdle,          // an empty cell of an imported table; costs nothing, survives a round trip
  kForward,       // F
  kBackward,      // B: input and weight gradient in one
  kInputGrad,     // I
  kWeightGrad,    // W
  kSendForward,   // SEND_F: this stage's output to stage + 1
  kRecvForward,   // RECV_F: this stage's input from stage - 1
  kSendBackward,  // SEND_B: the gradient of this stage's input to stage - 1
  kRecvBackward,  // RECV_B: the gradient of this stage's output from stage + 1
  kReduceGrad,    // REDUCE_GRAD: sums this stage's gradients over its ranks (no micro-batch)
  kRecompute,     // RECOMPUTE: rebuilds the activations of a (stage, micro-batch) for its backward
  // OPTIMIZER_STEP: changes this stage's weights. In a synchronous table it has no micro-batch; in
  // an asynchronous one, the last micro-batch whose gradient it includes.
  kOptimizerStep,
  // What only PyTorch's runtime acts upon, kept so that its files come back as they were:
  kUnshard,           // UNSHARD: gathers this stage's sharded parameters (FSDP)
  kReshard,           // RESHARD: lets them go
  kWaitReduceGrad,    // WAIT_REDUCE_GRAD: the end of this stage's REDUCE_GRAD
  kWaitSendForward,   // WAIT_SEND_F: the end of a SEND_F, whose memory is free again
  kWaitSendBackward,  // WAIT_SEND_B: the same of a SEND_B
};
constexpr Op kLastOp = Op::kWaitSendBackward;

// One cell of a timetable. Eight bytes: a timetable of 10^8 actions must fit in memory.
struct Action {
  static constexpr int32_t kNoMicroBatch = -1;

  Op op = Op::kIdle;
  // First half of an overlapped pair, written (0F7;7B3)OVERLAP_F_B: runs together with the next
  // action of the row.
  bool overlaps_next = false;
  uint16_t stage = 0;
  int32_t micro_batch = kNoMicroBatch;

  friend bool operator==(const Action&, const Action&) = default;
};
static_assert(sizeof(Action) == 8);

// True for F, B, I and W: the actions that have a cost per stage.
constexpr bool IsCompute(Op op) { return op >= Op::kForward && op <= Op::kWeightGrad; }
// True for those and RECOMPUTE: the actions that occupy their rank.
constexpr bool TakesTime(Op op) { return IsCompute(op) || op == Op::kRecompute; }
// True for SEND_F, RECV_F, SEND_B and RECV_B.
constexpr bool IsCommunication(Op op) { return op >= Op::kSendForward && op <= Op::kRecvBackward; }
// True where nothing runs here: empty cells, and what only PyTorch's runtime acts upon.
constexpr bool RunsNothing(Op op) { return op == Op::kIdle || op > Op::kOptimizerStep; }
// PyTorch's letters for `op`: "F", "SEND_F", "REDUCE_GRAD"; "" for kIdle.
const char* OpName(Op op);
// As PyTorch writes it: "2F0", "1SEND_B3", "0REDUCE_GRAD"; "" for kIdle. A pair's half prints like
// any other action.
std::string ToString(const Action& action);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_ACTION_H_
