#include <algorithm>

#include "schedules/generators/generators.h"

namespace sluice {
namespace {

// A rank's row of ZB-V: counts how far each op of its two stages has come.
class ZbVRow {
 public:
  ZbVRow(int first_stage, int second_stage, std::vector<Action>& row)
      : first_stage_(first_stage), second_stage_(second_stage), row_(row) {}

  void First(Op op) { row_.push_back(ComputeAction(op, first_stage_, first_[op]++)); }
  void Second(Op op) { row_.push_back(ComputeAction(op, second_stage_, second_[op]++)); }
  void FirstBackward() {
    First(Op::kInputGrad);
    First(Op::kWeightGrad);
  }
  void SecondBackward() {
    Second(Op::kInputGrad);
    Second(Op::kWeightGrad);
  }
  int forwards() const { return first_[Op::kForward]; }
  int second_forwards() const { return second_[Op::kForward]; }
  // The W that are left: the second stage's, then the first's.
  void Finish() {
    while (second_[Op::kWeightGrad] < second_[Op::kInputGrad]) Second(Op::kWeightGrad);
    while (first_[Op::kWeightGrad] < first_[Op::kInputGrad]) First(Op::kWeightGrad);
  }

 private:
  struct Counts {
    int& operator[](Op op) { return count[static_cast<int>(op)]; }
    int operator[](Op op) const { return count[static_cast<int>(op)]; }
    int count[static_cast<int>(Op::kOptimizerStep)] = {};
  };
  const int first_stage_;
  const int second_stage_;
  std::vector<Action>& row_;
  Counts first_;
  Counts second_;
};

}  // namespace

// ZB-V: each rank holds a stage on the way down and its mirror image on the way up, so a micro-
// batch's loss is on rank 0 and its backward starts where its forward ended. F = I = W keeps every
// rank busy from its first action to its last with no more memory than 1F1B's worst rank (p = 2,
// m = 4; capitals are the second stage):
//
//   rank 0  f0 f1 f2 F0 I0 W0 F1 I1 W1 f3 i0 w0 F2 I2 W2 i1 w1 F3 I3 W3 i2 w2 i3 w3
//   rank 1     f0 F0 f1 F1 I0 W0 f2 i0 w0 F2 I1 W1 f3 i1 w1 F3 I2 W2 i2 I3 i3 w2 W3 w3
//
// Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024, section 3 (V-ZB), and
// PyTorch's ScheduleZBVZeroBubble, whose order this is. Below 2p - 1 micro-batches it is the
// schedule of 2p - 1 with the others left out.
absl::StatusOr<Timetable> GenerateZbV(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("zbv", 2, request); !ok.ok()) return ok;
  const int p = request.ranks;
  const int m = std::max(request.micro_batches, 2 * p - 1);
  Timetable table = EmptyTimetable("zbv", request, Placement::V(p, 2));
  for (int rank = 0; rank < p; ++rank) {
    ZbVRow row(rank, 2 * p - 1 - rank, table.rows[rank]);
    for (int i = 0; i < 2 * (p - rank) - 1; ++i) row.First(Op::kForward);
    for (int i = 0; i < rank; ++i) {
      row.Second(Op::kForward);
      row.First(Op::kForward);
    }
    for (int i = 0; i < p - rank; ++i) {
      row.Second(Op::kForward);
      row.SecondBackward();
    }
    while (row.second_forwards() < row.forwards() || row.forwards() < m) {
      if (row.forwards() < m) row.First(Op::kForward);
      row.FirstBackward();
      row.Second(Op::kForward);
      row.SecondBackward();
    }
    for (int i = 0; i < rank; ++i) {
      row.First(Op::kInputGrad);
      row.Second(Op::kInputGrad);
    }
    for (int i = 0; i < p - rank; ++i) row.FirstBackward();
    row.Finish();
    KeepMicroBatches(request.micro_batches, table.rows[rank]);
  }
  return table;
}

}  // namespace sluice
