#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "schedules/generators/generators.h"

namespace sluice {
namespace {

constexpr int kForwardSlots = 1;
constexpr int kBackwardSlots = 2;
constexpr int kNever = std::numeric_limits<int>::max();

// Runs the waves slot by slot. A free rank prefers a backward to a forward, and of each kind the
// micro-batch that is furthest along its way, so that a wave is never delayed by a later one.
class Waves {
 public:
  Waves(const ScheduleRequest& request, Timetable& table)
      : table_(table),
        p_(request.ranks),
        m_(request.micro_batches),
        stages_(table.placement.stages()),
        forwards_(stages_, 0),
        backwards_(stages_, 0),
        forward_end_(stages_, std::vector<int>(m_, kNever)),
        backward_end_(stages_, std::vector<int>(m_, kNever)),
        busy_until_(p_, 0) {}

  void Run() {
    for (int now = 0; backwards_[0] < m_; ++now) {
      for (int rank = 0; rank < p_; ++rank) {
        if (busy_until_[rank] <= now) Start(rank, now);
      }
    }
  }

 private:
  int StageOf(int rank, int chunk) const {
    return chunk * p_ + (chunk % 2 == 0 ? rank : p_ - 1 - rank);
  }

  void Start(int rank, int now) {
    for (int chunk = 0; chunk < stages_ / p_; ++chunk) {
      if (TryBackward(rank, StageOf(rank, chunk), now)) return;
    }
    for (int chunk = stages_ / p_ - 1; chunk >= 0; --chunk) {
      if (TryForward(rank, StageOf(rank, chunk), now)) return;
    }
  }

  bool TryForward(int rank, int stage, int now) {
    const int b = forwards_[stage];
    if (b == m_ || (stage > 0 && forward_end_[stage - 1][b] > now)) return false;
    // Two units of p micro-batches may be in flight: the second fills the first's bubbles.
    if (stage == 0 && b >= 2 * p_ && backward_end_[0][b - 2 * p_] > now) return false;
    ++forwards_[stage];
    forward_end_[stage][b] = busy_until_[rank] = now + kForwardSlots;
    table_.rows[rank].push_back(ComputeAction(Op::kForward, stage, b));
    return true;
  }

  bool TryBackward(int rank, int stage, int now) {
    const int b = backwards_[stage];
    if (b == m_ || forward_end_[stage][b] > now) return false;
    if (stage + 1 < stages_ && backward_end_[stage + 1][b] > now) return false;
    ++backwards_[stage];
    backward_end_[stage][b] = busy_until_[rank] = now + kBackwardSlots;
    table_.rows[rank].push_back(ComputeAction(Op::kBackward, stage, b));
    return true;
  }

  Timetable& table_;
  const int p_, m_, stages_;
  std::vector<int> forwards_, backwards_;  // [stage] how many have started
  std::vector<std::vector<int>> forward_end_, backward_end_;
  std::vector<int> busy_until_;
};

}  // namespace

// Hanayo: waves over a V placement; with w waves a rank holds v = 2w stages (w = 1, p = 4, m = 4;
// a dash marks the second stage, B = 2 F):
//
//   rank 0  0 1 2 3 . . . 0'[0']1'[1']2'[2']3'[3'] . . . .[0 ] .[1 ] . .[2 ] . .[3 ]
//   rank 1  . 0 1 2 3 . 0' .1' .[0']2'[1']3'[2'] .[3'][0 ] .[1 ] . .[2 ] . .[3 ]
//   rank 2  . . 0 1 2 0'3 1' .2' .3'[0'] .[1'] .[0 ][2'][1 ][3'][2 ] . .[3 ]
//   rank 3  . . . 0 0'1 1'2 2'3 3' . . .[0'][0 ][1'][1 ][2'][2 ][3'][3 ]
//
// Liu et al., Hanayo: Harnessing Wave-like Pipeline Parallelism, SC 2023, section 3. The paper
// draws units of p micro-batches; the order here is found by running the waves, and a second unit
// may start before the first has returned.
absl::StatusOr<Timetable> GenerateHanayo(const ScheduleRequest& request) {
  if (request.chunks % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule hanayo needs an even number of chunks per rank, two for each wave, ",
                     "not ", request.chunks));
  }
  Timetable table = EmptyTimetable("hanayo", request, Placement::V(request.ranks, request.chunks));
  Waves(request, table).Run();
  return table;
}

}  // namespace sluice
