#ifndef SLUICE_SCHEDULES_DEPENDENCY_H_
#define SLUICE_SCHEDULES_DEPENDENCY_H_

#include <cstddef>

#include "schedules/action.h"
#include "schedules/timetable.h"

// What an action needs from its neighbours. The validator, the lowering and the simulator share
// these few rules:
//   F(s, b) needs F(s - 1, b);   B or I(s, b) needs B or I(s + 1, b).
namespace sluice {

constexpr int kNoStage = -1;

// True for B and I: the actions that make the gradient of a stage's input.
inline bool MakesInputGrad(Op op) { return op == Op::kBackward || op == Op::kInputGrad; }
// True for B and W: the actions that add to a stage's weight gradient.
inline bool MakesWeightGrad(Op op) { return op == Op::kBackward || op == Op::kWeightGrad; }

// The stage whose result `op` on `stage` waits for, or kNoStage.
inline int ProducerStage(Op op, int stage, int stages) {
  if (op == Op::kForward && stage > 0) return stage - 1;
  if (MakesInputGrad(op) && stage + 1 < stages) return stage + 1;
  return kNoStage;
}

// The stage that waits for the result of `op` on `stage`, or kNoStage.
inline int ConsumerStage(Op op, int stage, int stages) {
  if (op == Op::kForward && stage + 1 < stages) return stage + 1;
  if (MakesInputGrad(op) && stage > 0) return stage - 1;
  return kNoStage;
}

// The stage at the other end of a send or receive on `stage`; may lie outside 0..stages-1 in an
// unsound table.
inline int PeerStage(Op op, int stage) {
  return op == Op::kSendForward || op == Op::kRecvBackward ? stage + 1 : stage - 1;
}

inline bool IsSend(Op op) { return op == Op::kSendForward || op == Op::kSendBackward; }

// Flat index of (stage, micro-batch): the arrays of a whole timetable are dense, so no hashing.
class CellIndex {
 public:
  explicit CellIndex(const Timetable& timetable)
      : micro_batches_(static_cast<size_t>(timetable.micro_batches)),
        size_(static_cast<size_t>(timetable.placement.stages()) * micro_batches_) {}
  size_t size() const { return size_; }
  size_t operator()(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * micro_batches_ + static_cast<size_t>(micro_batch);
  }
  size_t operator()(const Action& action) const {
    return (*this)(action.stage, action.micro_batch);
  }

 private:
  size_t micro_batches_;
  size_t size_;
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_DEPENDENCY_H_
