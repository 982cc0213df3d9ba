#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate_checks.h"
#include "schedules/sum_order.h"

namespace sluice {
namespace {

// What a lowered stage exchanges with the stage after it, and the one before it, on another rank.
constexpr OpMask kMessagesDown = Bit(Op::kSendForward) | Bit(Op::kRecvBackward);
constexpr OpMask kMessagesUp = Bit(Op::kRecvForward) | Bit(Op::kSendBackward);
constexpr OpMask kSplitBackward = Bit(Op::kInputGrad) | Bit(Op::kWeightGrad);

// The ops that must not have run before `op` on the same (stage, micro-batch): they depend on `op`.
constexpr OpMask MustFollowOf(Op op) {
  switch (op) {
    case Op::kForward:
      return kMakesInputGrad | Bit(Op::kWeightGrad) | Bit(Op::kSendForward) | Bit(Op::kRecompute);
    case Op::kBackward:
      return Bit(Op::kSendBackward);
    case Op::kInputGrad:
      return Bit(Op::kWeightGrad) | Bit(Op::kSendBackward);
    case Op::kRecvForward:
      return Bit(Op::kForward);
    case Op::kRecvBackward:
    case Op::kRecompute:
      return kMakesInputGrad;
    default:
      return 0;
  }
}

// The ops that would repeat the work of `op`.
constexpr OpMask DoublesOf(Op op) {
  if (op == Op::kBackward) return Bit(Op::kBackward) | Bit(Op::kInputGrad) | Bit(Op::kWeightGrad);
  if (op == Op::kInputGrad || op == Op::kWeightGrad) return Bit(op) | Bit(Op::kBackward);
  return Bit(op);
}

// CheckRows looks it up for every action, so it is computed once.
constexpr size_t kOps = static_cast<size_t>(Op::kOptimizerStep) + 1;
using MaskTable = std::array<OpMask, kOps>;
constexpr MaskTable TableOf(OpMask (*mask)(Op)) {
  MaskTable table{};
  for (size_t op = 0; op < kOps; ++op) table[op] = mask(static_cast<Op>(op));
  return table;
}
constexpr MaskTable kMustFollow = TableOf(MustFollowOf);
constexpr MaskTable kDoubles = TableOf(DoublesOf);
OpMask MustFollow(Op op) { return kMustFollow[static_cast<size_t>(op)]; }
OpMask Doubles(Op op) { return kDoubles[static_cast<size_t>(op)]; }

class RowChecker {
 public:
  RowChecker(const Timetable& timetable, Census& census, DefectList& defects)
      : table_(timetable),
        stages_(timetable.placement.stages()),
        stage_(StagesOf(timetable)),
        census_(census),
        defects_(defects),
        sum_order_(SumOrder::Of(table_)),
        last_weight_grad_(stages_, -1),
        reduced_(stages_, false) {}

  void Check(int rank) {
    const auto& row = table_.rows[rank];
    for (size_t position = 0; position < row.size() && !defects_.full(); ++position) {
      const Action& action = row[position];
      if (action.overlaps_next) CheckPair(rank, position);
      if (RunsNothing(action.op)) continue;
      if (!StandsWell(rank, action) && !StandsWhereItMay(rank, position)) continue;
      if (action.op == Op::kReduceGrad) {
        reduced_[action.stage] = true;
      } else if (action.op != Op::kOptimizerStep) {
        CheckCell(rank, position);
      }
    }
  }

 private:
  void CheckPair(int rank, size_t position) {
    const auto& row = table_.rows[rank];
    const Action& first = row[position];
    if (position + 1 == row.size() || row[position + 1].overlaps_next) {
      return defects_.Add(
          rank, position, first,
          "overlaps the next action, but a pair has two halves and this one has one");
    }
    const Action& second = row[position + 1];
    if (first.op != Op::kForward || !IsCompute(second.op) || second.op == Op::kForward) {
      return defects_.Add(rank, position, first,
                          absl::StrCat("cannot overlap ", ToString(second),
                                       "; a pair is one F, then one B, I or W"));
    }
    if (first.stage == second.stage && first.micro_batch == second.micro_batch) {
      defects_.Add(rank, position, first,
                   absl::StrCat("overlaps ", ToString(second), ", which depends on it"));
    }
  }

  // The bounds that every action is checked against, computed once per stage.
  struct Stage {
    int rank;
    int first, end;  // micro-batches that run through it
    // The neighbours that are on the same rank; kNoStage where they are elsewhere.
    int next_here, previous_here;
    bool next_elsewhere, previous_elsewhere;
  };

  static std::vector<Stage> StagesOf(const Timetable& table) {
    const Placement& placement = table.placement;
    std::vector<Stage> stages;
    int first = 0;
    for (int s = 0; s < placement.stages(); ++s) {
      const auto is_here = [&](int other) {
        return other != kNoStage && placement.rank(other) == placement.rank(s);
      };
      const int next = placement.NextStage(s);
      const int previous = placement.PreviousStage(s);
      const int end = first + table.MicroBatchesOf(s);
      stages.push_back({placement.rank(s), first, end, is_here(next) ? next : kNoStage,
                        is_here(previous) ? previous : kNoStage, next != kNoStage && !is_here(next),
                        previous != kNoStage && !is_here(previous)});
      if (next == kNoStage) first = end;  // the next copy of the model takes the next micro-batches
    }
    return stages;
  }

  // Whether StandsWhereItMay would accept the action; faster where it would.
  bool StandsWell(int rank, const Action& action) const {
    if (action.stage >= stages_) return false;
    const Stage& stage = stage_[action.stage];
    if (stage.rank != rank || action.micro_batch < stage.first || action.micro_batch >= stage.end) {
      return false;
    }
    if (!IsCommunication(action.op)) return true;
    return action.op == Op::kSendForward || action.op == Op::kRecvBackward
               ? stage.next_elsewhere
               : stage.previous_elsewhere;
  }

  bool StandsWhereItMay(int rank, size_t position) {
    const Action& action = table_.rows[rank][position];
    if (action.stage >= stages_) {
      defects_.Add(rank, position, action, absl::StrCat("the stage is outside 0..", stages_ - 1));
      return false;
    }
    const bool whole_stage = action.op == Op::kReduceGrad || action.op == Op::kOptimizerStep;
    if (!whole_stage && (action.micro_batch < 0 || action.micro_batch >= table_.micro_batches)) {
      defects_.Add(rank, position, action,
                   absl::StrCat("the micro-batch is outside 0..", table_.micro_batches - 1));
      return false;
    }
    const int holder = table_.placement.rank(action.stage);
    if (holder != rank) {
      defects_.Add(rank, position, action,
                   absl::StrCat("stage ", action.stage, " is on rank ", holder));
      return false;
    }
    if (!whole_stage && !table_.Visits(action.micro_batch, action.stage)) {
      defects_.Add(rank, position, action,
                   absl::StrCat("micro-batch ", action.micro_batch, " runs through copy ",
                                table_.copy(action.micro_batch), " of the model; stage ",
                                action.stage, " is of copy ", table_.placement.copy(action.stage)));
      return false;
    }
    if (!IsCommunication(action.op)) return true;
    const int peer = PeerStage(table_.placement, action.op, action.stage);
    if (peer == kNoStage) {
      defects_.Add(
          rank, position, action,
          absl::StrCat(
              "there is no stage ",
              action.op == Op::kSendForward || action.op == Op::kRecvBackward ? "after" : "before",
              " stage ", action.stage, " at the other end"));
      return false;
    }
    if (table_.placement.rank(peer) == rank) {
      defects_.Add(rank, position, action,
                   absl::StrCat("stage ", peer, " is on the same rank, so no message is needed"));
      return false;
    }
    return true;
  }

  void CheckCell(int rank, size_t position) {
    const Action& action = table_.rows[rank][position];
    OpMask& seen = census_.seen[census_.cell(action)];
    if (seen & Doubles(action.op)) {
      defects_.Add(rank, position, action,
                   absl::StrCat("repeats the work of ", Found(rank, action, Doubles(action.op))));
      return;
    }
    if (seen & MustFollow(action.op)) {
      defects_.Add(rank, position, action,
                   absl::StrCat("comes after ", Found(rank, action, MustFollow(action.op)),
                                ", which depends on it"));
    }
    seen |= Bit(action.op);
    CheckNeighbourOnSameRank(rank, position);
    if (MakesWeightGrad(action.op)) CheckWeightGradOrder(rank, position);
  }

  // Two neighbouring stages on one rank pass data without a message, so the row itself must be in
  // order.
  void CheckNeighbourOnSameRank(int rank, size_t position) {
    const Action& action = table_.rows[rank][position];
    const Stage& stage = stage_[action.stage];
    const int consumer = action.op == Op::kForward   ? stage.next_here
                         : MakesInputGrad(action.op) ? stage.previous_here
                                                     : kNoStage;
    if (consumer == kNoStage) return;
    const OpMask waits = action.op == Op::kForward ? Bit(Op::kForward) : kMakesInputGrad;
    if (!(census_.seen[census_.cell(consumer, action.micro_batch)] & waits)) return;
    Action dependant = action;
    dependant.stage = static_cast<uint16_t>(consumer);
    defects_.Add(
        rank, position, action,
        absl::StrCat("comes after ", Found(rank, dependant, waits), ", which depends on it"));
  }

  void CheckWeightGradOrder(int rank, size_t position) {
    const Action& action = table_.rows[rank][position];
    int& last = last_weight_grad_[action.stage];
    // A micro-batch outside the table never gets here: StandsWhereItMay has named it.
    const int at = sum_order_.position(action.micro_batch);
    if (at < last) {
      defects_.Add(rank, position, action,
                   absl::StrCat("adds to the weight gradient of stage ", action.stage,
                                " after micro-batch ", sum_order_.micro_batch(last),
                                "; micro-batch order, or another one that all stages have, is "
                                "needed for one order of sums"));
    }
    last = std::max(last, at);
    if (reduced_[action.stage]) {
      defects_.Add(rank, position, action,
                   absl::StrCat("comes after the REDUCE_GRAD of stage ", action.stage));
    }
  }

  // "2F3 (position 5)": the first action of `like`'s (stage, micro-batch) whose op is in `mask`.
  std::string Found(int rank, const Action& like, OpMask mask) const {
    const auto& row = table_.rows[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].stage == like.stage && row[i].micro_batch == like.micro_batch &&
          (Bit(row[i].op) & mask)) {
        return absl::StrCat(ToString(row[i]), " (position ", i, ")");
      }
    }
    return "an earlier action";
  }

  const Timetable& table_;
  const int stages_;
  const std::vector<Stage> stage_;
  Census& census_;
  DefectList& defects_;
  const SumOrder sum_order_;
  std::vector<int> last_weight_grad_;  // [stage] position in the order of sums
  std::vector<bool> reduced_;
};

// The sends and receives of a lowered stage.
OpMask MessagesOf(const Placement& placement, int stage) {
  const auto crosses_to = [&](int peer) {
    return peer != kNoStage && placement.rank(peer) != placement.rank(stage);
  };
  OpMask messages = 0;
  if (crosses_to(placement.NextStage(stage))) messages |= kMessagesDown;
  if (crosses_to(placement.PreviousStage(stage))) messages |= kMessagesUp;
  return messages;
}

void AddAbsentOps(OpMask absent, int rank, int stage, int micro_batch, DefectList& defects) {
  if (absent == 0) return;
  for (int op = 0; op <= static_cast<int>(Op::kOptimizerStep); ++op) {
    const Action action{.op = static_cast<Op>(op),
                        .stage = static_cast<uint16_t>(stage),
                        .micro_batch = micro_batch};
    if (!(absent & Bit(action.op))) continue;
    const bool either = action.op == Op::kBackward;
    defects.AddAbsent(rank, action,
                      either ? absl::StrCat("is absent, and so are ", stage, "I", micro_batch,
                                            " and ", stage, "W", micro_batch)
                             : std::string("is absent"));
  }
}

}  // namespace

void CheckRows(const Timetable& timetable, Census& census, DefectList& defects) {
  RowChecker checker(timetable, census, defects);
  for (size_t rank = 0; rank < timetable.rows.size(); ++rank) checker.Check(static_cast<int>(rank));
}

void CheckComplete(const Timetable& timetable, const Census& census, DefectList& defects) {
  const bool lowered = timetable.lowered();
  for (int stage = 0; stage < timetable.placement.stages(); ++stage) {
    const OpMask messages = lowered ? MessagesOf(timetable.placement, stage) : OpMask{0};
    for (int b = 0; b < timetable.micro_batches && !defects.full(); ++b) {
      if (!timetable.Visits(b, stage)) continue;
      const OpMask seen = census.seen[census.cell(stage, b)];
      OpMask expected = messages | Bit(Op::kForward);
      if (seen & kSplitBackward) {
        expected |= kSplitBackward;
      } else {
        expected |= Bit(Op::kBackward);
      }
      if (seen & Bit(Op::kBackward)) expected &= static_cast<OpMask>(~kSplitBackward);
      AddAbsentOps(expected & static_cast<OpMask>(~seen), timetable.placement.rank(stage), stage, b,
                   defects);
    }
  }
}

}  // namespace sluice
