#include "schedules/pytorch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "schedules/dependency.h"
#include "schedules/lower.h"

namespace sluice {
namespace {

using Row = std::vector<Action>;

// What PyTorch's rows say only from 2.15 on.
bool IsOf2_15(Op op) {
  return op == Op::kReduceGrad || op == Op::kWaitReduceGrad || op == Op::kWaitSendForward ||
         op == Op::kWaitSendBackward;
}

Action OfStage(Op op, int stage) { return {.op = op, .stage = static_cast<uint16_t>(stage)}; }

// The position behind the cell that begins at `position`: a pair is one cell.
size_t BehindCell(const Row& row, size_t position) {
  return position + (row[position].overlaps_next ? 2 : 1);
}

// The last position of `wanted(action)`, and one more; 0 where there is none.
template <typename Wanted>
size_t BehindLast(const Row& row, Wanted wanted) {
  const auto last = std::find_if(row.rbegin(), row.rend(), wanted);
  return static_cast<size_t>(row.rend() - last);
}

// Adds REDUCE_GRAD and WAIT_REDUCE_GRAD of `stage` where the row does not have them.
void AddReduceGrad(int stage, Row& row) {
  const auto behind = [&](Op op) {
    return BehindLast(row, [&](const Action& a) { return a.op == op && a.stage == stage; });
  };
  const auto insert = [&](size_t at, Op op) {
    row.insert(row.begin() + static_cast<std::ptrdiff_t>(at), OfStage(op, stage));
  };
  if (behind(Op::kReduceGrad) == 0) {
    size_t at =
        BehindLast(row, [&](const Action& a) { return a.stage == stage && MakesWeightGrad(a.op); });
    if (at == 0) return;
    for (size_t i = at; i < row.size() && IsCommunication(row[i].op); ++i) {
      if (IsSend(row[i].op)) at = i + 1;  // the neighbour should not wait for the sum
    }
    insert(at, Op::kReduceGrad);
  }
  if (behind(Op::kWaitReduceGrad) == 0) insert(behind(Op::kReduceGrad), Op::kWaitReduceGrad);
}

// A send as its wait names it.
Action WaitOf(const Action& send) {
  return {.op = send.op == Op::kSendForward ? Op::kWaitSendForward : Op::kWaitSendBackward,
          .stage = send.stage,
          .micro_batch = send.micro_batch};
}

uint64_t KeyOf(const Action& wait) {
  return uint64_t{wait.op == Op::kWaitSendForward} << 63 | uint64_t{wait.stage} << 32 |
         static_cast<uint32_t>(wait.micro_batch);
}

// Adds the wait of each send that has none.
Row WithSendWaits(const Row& row) {
  absl::flat_hash_set<uint64_t> waited;
  for (const Action& action : row) {
    if (action.op == Op::kWaitSendForward || action.op == Op::kWaitSendBackward) {
      waited.insert(KeyOf(action));
    }
  }
  Row result;
  Row pending;  // waits, in the order of their sends
  absl::flat_hash_set<uint64_t> is_pending;
  const auto end_send_before = [&](const Action& backward) {
    const Action wait{
        .op = Op::kWaitSendForward, .stage = backward.stage, .micro_batch = backward.micro_batch};
    if (is_pending.erase(KeyOf(wait)) > 0) result.push_back(wait);
  };
  for (size_t i = 0; i < row.size();) {
    const size_t behind = std::min(BehindCell(row, i), row.size());
    result.insert(result.end(), row.begin() + static_cast<std::ptrdiff_t>(i),
                  row.begin() + static_cast<std::ptrdiff_t>(behind));
    for (; i < behind; ++i) {
      if (MakesInputGrad(row[i].op)) end_send_before(row[i]);
      if (!IsSend(row[i].op) || waited.contains(KeyOf(WaitOf(row[i])))) continue;
      pending.push_back(WaitOf(row[i]));
      is_pending.insert(KeyOf(pending.back()));
    }
  }
  for (const Action& wait : pending) {
    if (is_pending.contains(KeyOf(wait))) result.push_back(wait);
  }
  return result;
}

// Which parameters a rank has gathered: those of the next `most` stages that it computes. A pair
// is not divided, so it may add one stage.
class ActiveStages {
 public:
  explicit ActiveStages(const Row& row) : row_(row), next_(row.size()) {
    // [stage] from the end: where it is computed next. Each cell remembers, for its stage, the
    // next cell that computes it.
    std::vector<size_t> next_of_stage;
    for (size_t i = row.size(); i-- > 0;) {
      if (!IsCompute(row[i].op)) continue;
      const size_t stage = row[i].stage;
      if (stage >= next_of_stage.size()) next_of_stage.resize(stage + 1, kNever);
      next_[i] = next_of_stage[stage];
      next_of_stage[stage] = CellOf(i);
    }
    for (size_t stage = 0; stage < next_of_stage.size(); ++stage) {
      if (next_of_stage[stage] != kNever) upcoming_.insert({next_of_stage[stage], stage});
    }
  }

  // The next stages, in the order of their use, from the cell at `position` on.
  std::vector<int> Upcoming(int most) const {
    std::vector<int> stages;
    size_t last = kNever;
    for (const Use& use : upcoming_) {
      if (static_cast<int>(stages.size()) >= most && use.cell != last) break;
      last = use.cell;
      stages.push_back(static_cast<int>(use.stage));
    }
    InOrderOfHalves(stages);
    return stages;
  }

  // Goes past the cell of [begin, end).
  void Pass(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) upcoming_.erase({begin, row_[i].stage});
    for (size_t i = begin; i < end; ++i) {
      if (next_[i] != kNever && next_[i] != begin) upcoming_.insert({next_[i], row_[i].stage});
    }
  }

 private:
  static constexpr size_t kNever = SIZE_MAX;
  struct Use {
    size_t cell;  // the position of its first half
    size_t stage;
    bool operator<(const Use& other) const {
      return std::pair(cell, stage) < std::pair(other.cell, other.stage);
    }
  };

  size_t CellOf(size_t i) const { return i > 0 && row_[i - 1].overlaps_next ? i - 1 : i; }

  // Two stages of one pair follow each other in `stages`; the first half's comes first.
  void InOrderOfHalves(std::vector<int>& stages) const {
    size_t k = 0;
    for (auto use = upcoming_.begin(); k + 1 < stages.size(); ++use, ++k) {
      if (use->cell != std::next(use)->cell) continue;
      if (row_[use->cell].stage != stages[k]) std::swap(stages[k], stages[k + 1]);
    }
  }

  const Row& row_;
  std::vector<size_t> next_;  // [position] the next cell of the same stage
  std::set<Use> upcoming_;    // of each stage its next use
};

absl::StatusOr<Row> WithUnshards(const Row& row, int most) {
  for (const Action& action : row) {
    if (action.op == Op::kUnshard || action.op == Op::kReshard) return row;
  }
  ActiveStages upcoming(row);
  std::vector<int> active;
  Row result;
  for (size_t i = 0; i < row.size();) {
    const size_t behind = std::min(BehindCell(row, i), row.size());
    if (IsCompute(row[i].op)) {
      if (most == 1 && behind > i + 1 && row[i].stage != row[i + 1].stage) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the pair (", ToString(row[i]), ";", ToString(row[i + 1]),
            ") computes two stages at once; the most active stages must be at least 2, not 1"));
      }
      const std::vector<int> wanted = upcoming.Upcoming(most);
      const auto is_in = [](const std::vector<int>& stages, int stage) {
        return std::find(stages.begin(), stages.end(), stage) != stages.end();
      };
      for (const int stage : active) {
        if (!is_in(wanted, stage)) result.push_back(OfStage(Op::kReshard, stage));
      }
      std::erase_if(active, [&](int stage) { return !is_in(wanted, stage); });
      for (const int stage : wanted) {
        if (is_in(active, stage)) continue;
        result.push_back(OfStage(Op::kUnshard, stage));
        active.push_back(stage);
      }
      upcoming.Pass(i, behind);
    }
    for (; i < behind; ++i) result.push_back(row[i]);
  }
  for (const int stage : active) result.push_back(OfStage(Op::kReshard, stage));
  return result;
}

}  // namespace

std::optional<PyTorchVersion> PyTorchVersionNamed(absl::string_view name) {
  const auto* known = std::find(std::begin(kPyTorchVersions), std::end(kPyTorchVersions), name);
  if (known == std::end(kPyTorchVersions)) return std::nullopt;
  return static_cast<PyTorchVersion>(known - std::begin(kPyTorchVersions));
}

std::string WhyNotForPyTorch(const Timetable& timetable) {
  if (timetable.updates != WeightUpdates::kFlush) {
    return "its weights change while micro-batches are in flight";
  }
  if (timetable.placement.copies() > 1) return "its ranks hold two copies of the model";
  for (const auto& row : timetable.rows) {
    for (const Action& action : row) {
      if (action.op == Op::kRecompute) {
        return "PyTorch has no RECOMPUTE; its checkpointing is in the model";
      }
    }
  }
  return "";
}

absl::StatusOr<Timetable> LowerForPyTorch(const Timetable& timetable,
                                          const PyTorchOptions& options) {
  if (const std::string why = WhyNotForPyTorch(timetable); !why.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("PyTorch cannot run timetable ", timetable.name, ": ", why));
  }
  Timetable table = timetable;
  if (options.version == PyTorchVersion::k2_8) {
    for (Row& row : table.rows) {
      for (Action& action : row) action.overlaps_next = false;
    }
  }
  absl::StatusOr<Timetable> lowered = table.lowered() ? table : LowerTimetable(table);
  if (!lowered.ok()) return lowered;
  for (size_t rank = 0; rank < lowered->rows.size(); ++rank) {
    Row& row = lowered->rows[rank];
    std::erase_if(row,
                  [](const Action& a) { return a.op == Op::kOptimizerStep || a.op == Op::kIdle; });
    if (options.version == PyTorchVersion::k2_8) {
      std::erase_if(row, [](const Action& a) { return IsOf2_15(a.op); });
    } else {
      for (const int stage : lowered->placement.StagesOf(static_cast<int>(rank))) {
        AddReduceGrad(stage, row);
      }
      row = WithSendWaits(row);
    }
    if (options.max_active_stages == 0) continue;
    absl::StatusOr<Row> sharded = WithUnshards(row, options.max_active_stages);
    if (!sharded.ok()) return sharded.status();
    row = *std::move(sharded);
  }
  return lowered;
}

}  // namespace sluice
