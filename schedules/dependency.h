#ifndef SLUICE_SCHEDULES_DEPENDENCY_H_
#define SLUICE_SCHEDULES_DEPENDENCY_H_

#include <cstddef>

#include "schedules/action.h"
#include "schedules/timetable.h"

// What an action needs from its neighbours. The validator, the lowering and the simulator share
// these few rules:
//   F(s, b) needs F(s - 1, b);   B or I(s, b) needs B or I(s + 1, b);
// s - 1 and s + 1 being the neighbours in the same copy of the model.
namespace sluice {

// True for B and I: the actions that make the gradient of a stage's input.
inline bool MakesInputGrad(Op op) { return op == Op::kBackward || op == Op::kInputGrad; }
// True for B and W: the actions that add to a stage's weight gradient.
inline bool MakesWeightGrad(Op op) { return op == Op::kBackward || op == Op::kWeightGrad; }

// The stage whose result `op` on `stage` waits for, or kNoStage.
inline int ProducerStage(const Placement& placement, Op op, int stage) {
  if (op == Op::kForward) return placement.PreviousStage(stage);
  return MakesInputGrad(op) ? placement.NextStage(stage) : kNoStage;
}

// The stage that waits for the result of `op` on `stage`, or kNoStage.
inline int ConsumerStage(const Placement& placement, Op op, int stage) {
  if (op == Op::kForward) return placement.NextStage(stage);
  return MakesInputGrad(op) ? placement.PreviousStage(stage) : kNoStage;
}

// The stage at the other end of a send or receive on `stage`; kNoStage where an unsound table sends
// over the edge of the model.
inline int PeerStage(const Placement& placement, Op op, int stage) {
  return op == Op::kSendForward || op == Op::kRecvBackward ? placement.NextStage(stage)
                                                           : placement.PreviousStage(stage);
}

inline bool IsSend(Op op) { return op == Op::kSendForward || op == Op::kSendBackward; }

// Flat index of (stage, micro-batch): the arrays of a whole timetable are dense, so no hashing.
// With several copies of the model, a micro-batch leaves the cells of the other copies unused.
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
