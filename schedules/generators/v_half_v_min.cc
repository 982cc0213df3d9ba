#include <deque>

#include "schedules/generators/generators.h"
#include "schedules/generators/v_slots.h"

namespace sluice {
namespace {

constexpr int kPeriod = 6;  // F, I and W of two stages

// The slots in which rank r of p starts its four actions of micro-batch 0; the actions of each
// further micro-batch follow kPeriod slots later.
using BuildingBlock = std::array<int, kAnyWeightGrad> (*)(int p, int r);

VSlots Repeat(BuildingBlock block, int p, int m) {
  VSlots slots(p);
  for (int rank = 0; rank < p; ++rank) {
    const auto first = block(p, rank);
    for (int kind = 0; kind < kAnyWeightGrad; ++kind) {
      for (int b = 0; b < m; ++b) slots[rank][kind].push_back(first[kind] + kPeriod * b);
    }
  }
  return slots;
}

void PutAllWeightGrads(VSlots& slots) {
  for (VRank& rank : slots) PutWeightGrads(rank);
}

// The row of a rank in the order of its slots. A free slot goes to a W that waits; those of the
// stage on the way up come first.
std::vector<Action> RowOf(const VRank& rank, int down_stage, int up_stage) {
  std::vector<Action> row;
  std::deque<Action> waiting[2];  // up, down
  const auto put_weight_grad = [&] {
    auto& queue = waiting[0].empty() ? waiting[1] : waiting[0];
    if (queue.empty()) return false;
    row.push_back(queue.front());
    queue.pop_front();
    return true;
  };
  int next[kAnyWeightGrad] = {};
  const int m = static_cast<int>(rank[kDownForward].size());
  for (int slot = 0; next[kDownInputGrad] < m; ++slot) {
    int kind = 0;
    while (kind < kAnyWeightGrad && (next[kind] == m || rank[kind][next[kind]] != slot)) ++kind;
    if (kind == kAnyWeightGrad) {
      put_weight_grad();
      continue;
    }
    const bool down = kind == kDownForward || kind == kDownInputGrad;
    const bool forward = kind == kDownForward || kind == kUpForward;
    const int stage = down ? down_stage : up_stage;
    const int b = next[kind]++;
    row.push_back(ComputeAction(forward ? Op::kForward : Op::kInputGrad, stage, b));
    if (!forward) waiting[down].push_back(ComputeAction(Op::kWeightGrad, stage, b));
  }
  while (put_weight_grad()) {
  }
  return row;
}

// The paper's three steps: repeat the building block; close the gaps of warm-up and cool-down by
// moving actions earlier where memory allows; place W anew.
Timetable Build(const char* name, const ScheduleRequest& request, BuildingBlock block) {
  const int p = request.ranks;
  VSlots slots = Repeat(block, p, request.micro_batches);
  PutAllWeightGrads(slots);
  MoveEarlier(slots);
  Squeeze(slots);
  for (VRank& rank : slots) rank[kAnyWeightGrad].clear();
  MoveEarlier(slots);
  PutAllWeightGrads(slots);
  Squeeze(slots);
  Timetable table = EmptyTimetable(name, request, Placement::V(p, 2));
  for (int rank = 0; rank < p; ++rank) {
    table.rows[rank] = RowOf(slots[rank], rank, 2 * p - 1 - rank);
  }
  return table;
}

}  // namespace

// V-Half: ZB-V's placement with half of 1F1B's memory. Forwards move down at one rank in two slots
// and up at one a slot, and so do the backwards; a micro-batch's visits to a rank lie so that the
// sum of its two stages' lifetimes is alike on all ranks. The building block, for p = 4 (F and I on
// the way down, f and i on the way up; W fill the free slots; the block repeats every 6 slots):
//
//   rank 0  F . . . . . . . . . f . . . i . . . . . . . . . . I
//   rank 1  . . F . . . . . . f . . . . . . i . . . . . . . I .
//   rank 2  . . . . F . . . f . . . . . . . . . i . . . . I . .
//   rank 3  . . . . . . F f . . . . . . . . . . . . i . I . . .
//
// Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024, section 3 and appendix;
// offsets of the code that comes with it (github.com/sail-sg/zero-bubble).
absl::StatusOr<Timetable> GenerateVHalf(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("v-half", 2, request); !ok.ok()) return ok;
  return Build("v-half", request, [](int p, int r) {
    const int shift = p % 2 == 0 ? 3 : 0;  // otherwise two actions would meet in one slot
    return std::array<int, kAnyWeightGrad>{2 * r, 3 * p - r - 2, 3 * p + shift + 2 * r - 1,
                                           6 * p + shift - r - 2};
  });
}

// V-Min: as V-Half, with a third of 1F1B's memory, the least with which no steady state has a
// bubble when F = I = W. All waves move at one rank a slot (p = 4):
//
//   rank 0  F . . . . . . f i . . . . . . I
//   rank 1  . F . . . . f . . i . . . . I .
//   rank 2  . . F . . f . . . . i . . I . .
//   rank 3  . . . F f . . . . . . i I . . .
absl::StatusOr<Timetable> GenerateVMin(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("v-min", 2, request); !ok.ok()) return ok;
  return Build("v-min", request, [](int p, int r) {
    const int shift = p % 3 == 0 ? 2 : 0;  // otherwise two actions would meet in one slot
    return std::array<int, kAnyWeightGrad>{r, 2 * p - r - 1, 2 * p + shift + r,
                                           4 * p + shift - r - 1};
  });
}

}  // namespace sluice
