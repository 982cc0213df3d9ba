#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate_checks.h"
#include "schedules/weight_versions.h"

namespace sluice {
namespace {

// Where the weights of one stage change.
struct StageUpdates {
  int updates = 0;      // how many so far along the row
  size_t position = 0;  // of the last one
  int gradients = 0;    // micro-batches whose weight gradients came so far
};

class VersionChecker {
 public:
  VersionChecker(const Timetable& timetable, DefectList& defects)
      : table_(timetable),
        per_update_(MicroBatchesPerUpdate(timetable)),
        defects_(defects),
        stages_(timetable.placement.stages()) {}

  void Check(int rank) {
    const auto& row = table_.rows[rank];
    for (size_t i = 0; i < row.size() && !defects_.full(); ++i) {
      const Action& action = row[i];
      // CheckRows reports an action on the wrong rank or outside the table.
      if (action.stage >= table_.placement.stages() || table_.placement.rank(action.stage) != rank)
        continue;
      if (action.op == Op::kOptimizerStep) {
        Update(rank, i);
      } else if (action.op == Op::kForward) {
        Forward(rank, i);
      } else if (MakesWeightGrad(action.op)) {
        Gradient(rank, i);
      }
    }
  }

  void CheckComplete() {
    if (Synchronous()) return;
    const int due = (table_.micro_batches + per_update_ - 1) / per_update_;
    for (int stage = 0; stage < table_.placement.stages(); ++stage) {
      for (int u = stages_[stage].updates; u < due && !defects_.full(); ++u) {
        defects_.AddAbsent(table_.placement.rank(stage), StepAfter(stage, LastOf(u)),
                           absl::StrCat("is absent: update ", u, " of stage ", stage,
                                        " includes micro-batches ", FirstOf(u), " to ", LastOf(u)));
      }
    }
  }

 private:
  bool Synchronous() const { return table_.updates == WeightUpdates::kFlush; }
  int FirstOf(int update) const { return update * per_update_; }
  int LastOf(int update) const {
    return static_cast<int>(
        std::min<int64_t>(int64_t{update + 1} * per_update_, table_.micro_batches) - 1);
  }
  static Action StepAfter(int stage, int micro_batch) {
    return {.op = Op::kOptimizerStep,
            .stage = static_cast<uint16_t>(stage),
            .micro_batch = micro_batch};
  }

  void Update(int rank, size_t position) {
    const Action& action = table_.rows[rank][position];
    StageUpdates& stage = stages_[action.stage];
    if (Synchronous()) {
      SynchronousUpdate(rank, position, stage);
    } else if (action.micro_batch != LastOf(stage.updates)) {
      defects_.Add(
          rank, position, action,
          absl::StrCat("update ", stage.updates, " of stage ", action.stage,
                       " includes micro-batches ", FirstOf(stage.updates), " to ",
                       LastOf(stage.updates), ", so ",
                       ToString(StepAfter(action.stage, LastOf(stage.updates))), " is due here"));
    } else if (stage.gradients <= action.micro_batch) {
      defects_.Add(rank, position, action,
                   absl::StrCat("comes before the gradient of micro-batch ", stage.gradients,
                                ", which it includes"));
    }
    ++stage.updates;
    stage.position = position;
  }

  void SynchronousUpdate(int rank, size_t position, const StageUpdates& stage) {
    const Action& action = table_.rows[rank][position];
    const int all = table_.MicroBatchesOf(action.stage);
    if (stage.updates > 0) {
      defects_.Add(rank, position, action,
                   absl::StrCat("updates stage ", action.stage, " again, as at position ",
                                stage.position, "; a synchronous table updates once"));
    } else if (stage.gradients < all) {
      defects_.Add(
          rank, position, action,
          absl::StrCat("comes after ", stage.gradients, " of the ", all, " gradients of stage ",
                       action.stage, "; a synchronous table updates after all of them"));
    }
  }

  // With two versions a micro-batch can use only the last but one, or the last before its own
  // update: later versions come too late for its backward, which uses the same weights, and an
  // earlier one would be a third.
  void Forward(int rank, size_t position) {
    const Action& action = table_.rows[rank][position];
    if (table_.updates != WeightUpdates::kDoubleBuffered) return;
    const int made = stages_[action.stage].updates;
    const int version = VersionOf(table_, action.micro_batch, made);
    if (version <= made) return;
    defects_.Add(
        rank, position, action,
        absl::StrCat("uses the weights of ", ToString(StepAfter(action.stage, LastOf(version - 1))),
                     ", which comes later on this rank; older ones would be a third "
                     "version to keep"));
  }

  void Gradient(int rank, size_t position) {
    const Action& action = table_.rows[rank][position];
    StageUpdates& stage = stages_[action.stage];
    ++stage.gradients;
    if (Synchronous()) {
      if (stage.updates == 0) return;
      return defects_.Add(rank, position, action,
                          absl::StrCat("uses other weights than its forward: stage ", action.stage,
                                       " was updated at position ", stage.position));
    }
    const int due = LastOf(stage.updates);
    if (action.micro_batch <= due) return;
    defects_.Add(rank, position, action,
                 absl::StrCat("adds to the gradient of stage ", action.stage, " before ",
                              ToString(StepAfter(action.stage, due)), ", which includes only ",
                              "micro-batches ", FirstOf(stage.updates), " to ", due));
  }

  const Timetable& table_;
  const int per_update_;
  DefectList& defects_;
  std::vector<StageUpdates> stages_;
};

}  // namespace

void CheckVersions(const Timetable& timetable, DefectList& defects) {
  if (timetable.updates != WeightUpdates::kFlush && timetable.placement.copies() > 1) {
    return defects.AddAbsent(
        -1, {},
        absl::StrCat("weights change without a flush, but there are ", timetable.placement.copies(),
                     " copies of the model, which could not agree on them"));
  }
  if (timetable.updates == WeightUpdates::kDoubleBuffered && timetable.update_every < 1) {
    return defects.AddAbsent(-1, {},
                             absl::StrCat("weights change after every ", timetable.update_every,
                                          " micro-batches; at least 1 is needed"));
  }
  const auto updates = [](const Action& action) { return action.op == Op::kOptimizerStep; };
  const bool any = std::any_of(timetable.rows.begin(), timetable.rows.end(), [&](const auto& row) {
    return std::any_of(row.begin(), row.end(), updates);
  });
  if (!any && timetable.updates == WeightUpdates::kFlush) return;
  VersionChecker checker(timetable, defects);
  for (int rank = 0; rank < timetable.placement.ranks(); ++rank) checker.Check(rank);
  checker.CheckComplete();
}

}  // namespace sluice
