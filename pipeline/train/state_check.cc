#include "pipeline/train/state_check.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/where.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/state/rounds.h"
#include "pipeline/train/diagnosis.h"
#include "pipeline/train/finite_state.h"

namespace sluice {

absl::Status StateCheck::Check(int64_t step) {
  if (checked_step_ == step) return absl::OkStatus();
  const absl::StatusOr<std::string> bad = NotFinite();
  return bad.ok() ? CheckAnswer(step, *bad) : bad.status();
}

absl::Status StateCheck::CheckAnswer(int64_t step, const std::string& not_finite) {
  checked_step_ = step;
  if (not_finite.empty()) return absl::OkStatus();
  const char* saved = options_.saving.directory.empty() ? "" : ", so they are not saved";
  return GiveUp(
      absl::FailedPreconditionError(absl::StrCat("after step ", step, " the values of ", not_finite,
                                                 " are not all finite", saved, kLowerRate)),
      step);
}

absl::StatusOr<std::string> StateCheck::NotFinite(Communicator& world) const {
  const absl::StatusOr<std::optional<StateTensor>> bad =
      FindNotFinite(state_, world, options_.watching.timeout);
  if (!bad.ok()) return bad.status();
  return bad->has_value() ? Describe(**bad, state_.plan()) : "";
}

absl::Status StateCheck::GiveUp(const absl::Status& why, int64_t step) const {
  const Saving& saving = options_.saving;
  std::vector<std::string> places;  // the run may have saved nothing yet
  for (const std::string& path : {saving.directory, saving.resume}) {
    if (!path.empty() && (places.empty() || places.front() != path)) places.push_back(path);
  }
  if (places.empty()) return why;
  Rounds rounds(&world_, options_.watching.timeout);
  if (world_.rank() != 0) {
    absl::Status ended = rounds.Finish();
    return ended.ok() ? why : ended;
  }
  // What came after an audit that was passed may be wrong without looking so.
  const bool later_too = WhereOf(why).moment != Where::Moment::kAudit;
  std::string good;
  absl::Status looked = rounds.Do([&] {
    for (const std::string& path : places) {
      if (good.empty()) good = NewestGoodCheckpoint(path, step, later_too);
    }
    return absl::OkStatus();
  });
  if (!looked.ok()) return looked;
  const std::string searched = absl::StrJoin(places, " or ");
  const std::string none =
      later_too ? absl::StrCat("there is no good checkpoint in ", searched)
                : absl::StrCat("there is no checkpoint up to step ", step, " in ", searched,
                               ", and later ones may be wrong: begin anew");
  const std::string advice = good.empty() ? none
                                          : absl::StrCat("the newest good checkpoint is ", good,
                                                         ": go on from it with --resume");
  return WithSuffix(why, absl::StrCat("; ", advice));
}

}  // namespace sluice
