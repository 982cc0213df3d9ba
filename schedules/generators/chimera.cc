#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedules/generators/generators.h"

namespace sluice {
namespace {

// When an action starts in a run in which F and B take one slot.
struct Placed {
  int64_t slot;
  Action action;
};

}  // namespace

// Chimera: two copies of the model run in opposite directions, half of the micro-batches through
// each. In slots, stage s runs the forward of its i-th micro-batch at s + 2i and the backward at
// 2p - 1 - s + 2i: with p even the two directions never want a rank at the same time (p = 4, m = 4;
// micro-batches 0 and 1 go down, 2 and 3 go up; [b] is a backward):
//
//   rank 0   0  1  .  2 [2] 3 [3][0] . [1]
//   rank 1   .  0  2  1  3 [2][0][3][1] .
//   rank 2   .  2  0  3  1 [0][2][1][3] .
//   rank 3   2  3  .  0 [0] 1 [1][2] . [3]
//
// p micro-batches are a unit; further units follow 2p slots later and fill the gaps of the one
// before. Li and Hoefler, Chimera, SC 2021, fig. 3 and section 3.5 (direct concatenation). A rank
// holds the weights of two stages, whose gradients the two holders of a stage add up.
absl::StatusOr<Timetable> GenerateChimera(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("chimera", 2, request); !ok.ok()) return ok;
  const int p = request.ranks;
  if (p % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule chimera needs an even number of ranks, not ", p,
                     ": in each slot a rank serves one of two directions; zbv takes any number"));
  }
  Timetable table = EmptyTimetable("chimera", request, Placement::Bidirectional(p));
  std::vector<std::vector<Placed>> placed(p);
  const int per_unit = p / 2;  // micro-batches per direction
  const int64_t unit_slots = int64_t{2} * p;
  int first[2] = {0, table.MicroBatchesOf(0)};
  for (int stage = 0; stage < 2 * p; ++stage) {
    const int s = table.placement.model_stage(stage);
    const int offset = first[table.placement.copy(stage)];
    for (int i = 0; i < table.MicroBatchesOf(stage); ++i) {
      const int64_t unit = i / per_unit, in_unit = i % per_unit;
      const int64_t start = unit_slots * unit + 2 * in_unit;
      auto& row = placed[table.placement.rank(stage)];
      row.push_back({start + s, ComputeAction(Op::kForward, stage, offset + i)});
      row.push_back({start + unit_slots - 1 - s, ComputeAction(Op::kBackward, stage, offset + i)});
    }
  }
  for (int rank = 0; rank < p; ++rank) {
    std::sort(placed[rank].begin(), placed[rank].end(),
              [](const Placed& a, const Placed& b) { return a.slot < b.slot; });
    for (const Placed& cell : placed[rank]) table.rows[rank].push_back(cell.action);
  }
  return table;
}

}  // namespace sluice
