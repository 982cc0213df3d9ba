#include <algorithm>
#include <deque>

#include "schedules/generators/generators.h"

namespace sluice {
namespace {

// A rank's row of DualPipeV: "first" is its stage on the way down, "second" its mirror image on the
// way up.
class DualPipeRow {
 public:
  DualPipeRow(int first_stage, int second_stage, std::vector<Action>& row)
      : row_(row), stages_{{first_stage}, {second_stage}} {}

  static constexpr int kFirst = 0;
  static constexpr int kSecond = 1;

  void Forward(int which) {
    Stage& stage = stages_[which];
    row_.push_back(ComputeAction(Op::kForward, stage.index, stage.forwards++));
  }
  // Whole, or, where `split`, only I: its W waits in a queue.
  void Backward(int which, bool split = false) {
    Stage& stage = stages_[which];
    const int b = stage.backwards++;
    row_.push_back(ComputeAction(split ? Op::kInputGrad : Op::kBackward, stage.index, b));
    if (split) waiting_.push_back(ComputeAction(Op::kWeightGrad, stage.index, b));
  }
  // Forward of one stage and backward of the other at the same time.
  void Pair(int forward, int backward) {
    Forward(forward);
    row_.back().overlaps_next = true;
    Backward(backward);
  }
  void WeightGrad() {
    if (waiting_.empty()) return;
    row_.push_back(waiting_.front());
    waiting_.pop_front();
  }

 private:
  struct Stage {
    int index;
    int forwards = 0;
    int backwards = 0;
  };
  std::vector<Action>& row_;
  Stage stages_[2];
  std::deque<Action> waiting_;
};

void FillRow(int p, int m, int rank, DualPipeRow& row) {
  constexpr int kFirst = DualPipeRow::kFirst;
  constexpr int kSecond = DualPipeRow::kSecond;
  for (int i = 0; i < 2 * (p - rank - 1); ++i) row.Forward(kFirst);
  for (int i = 0; i <= rank; ++i) {
    row.Forward(kFirst);
    row.Forward(kSecond);
  }
  for (int i = 0; i < p - rank - 1; ++i) {
    row.Backward(kSecond, /*split=*/true);
    row.WeightGrad();
    row.Forward(kSecond);
  }
  for (int i = 0; i < m - 2 * p + rank + 1; ++i) {
    // At the turning point they are not a pair, so that the gradient leaves earlier.
    if (i == 0 && rank == p - 1) {
      row.Forward(kFirst);
      row.Backward(kSecond);
    } else {
      row.Pair(kFirst, kSecond);
    }
    row.Pair(kSecond, kFirst);
  }
  for (int i = 0; i < p - rank - 1; ++i) {
    row.Backward(kSecond);
    row.Pair(kSecond, kFirst);
  }
  // The second half of the cool-down splits backwards; on even ranks it begins in the middle of a
  // step.
  const int half = (rank + 1) / 2;
  for (int i = 0; i <= rank; ++i) {
    const bool odd = rank % 2 == 1;
    row.Backward(kSecond, i > half || (i == half && odd));
    row.Backward(kFirst, i >= half);
  }
  for (int i = 0; i < p - rank - 1; ++i) {
    row.WeightGrad();
    row.Backward(kFirst, /*split=*/true);
  }
  for (int i = 0; i <= rank; ++i) row.WeightGrad();
}

}  // namespace

// DualPipeV: ZB-V's placement, with the forward of one stage and the backward of the other run
// together as a pair (written f3&B0), so that each hides the other's communication (p = 2, m = 4;
// capitals are the second stage):
//
//   rank 0  f0 f1 f2 F0 I0 W0 F1 f3&B1 F2&b0 B2 F3&b1 B3 i2 w2 i3 w3
//   rank 1  f0 F0 f1 F1 f2 B0 F2&b0 f3&B1 F3&b1 B2 b2 I3 i3 W3 w3
//
// DeepSeek-AI, DualPipe (github.com/deepseek-ai/DualPipe), and PyTorch's ScheduleDualPipeV, whose
// order this is. Both need m >= 2p; below, it is the schedule of 2p with the others left out.
absl::StatusOr<Timetable> GenerateDualPipeV(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("dualpipev", 2, request); !ok.ok()) return ok;
  const int p = request.ranks;
  const int m = std::max(request.micro_batches, 2 * p);
  Timetable table = EmptyTimetable("dualpipev", request, Placement::V(p, 2));
  for (int rank = 0; rank < p; ++rank) {
    DualPipeRow row(rank, 2 * p - 1 - rank, table.rows[rank]);
    FillRow(p, m, rank, row);
    KeepMicroBatches(request.micro_batches, table.rows[rank]);
  }
  return table;
}

}  // namespace sluice
