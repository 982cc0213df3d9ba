#include "schedules/check/validate.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate_checks.h"

namespace sluice {

bool CheckShape(const Timetable& timetable, DefectList& defects) {
  const int ranks = timetable.placement.ranks();
  if (static_cast<int>(timetable.rows.size()) != ranks) {
    defects.AddAbsent(
        -1, {},
        absl::StrCat("the table has ", timetable.rows.size(), " rows for ", ranks, " ranks"));
    return false;
  }
  if (timetable.micro_batches < 1) {
    defects.AddAbsent(-1, {},
                      absl::StrCat("the table has ", timetable.micro_batches,
                                   " micro-batches; at least 1 is needed"));
    return false;
  }
  // Keeps memory linear in the actions when one wild number blows the table up.
  constexpr int64_t kSpare = int64_t{1} << 20;
  const int64_t cells = int64_t{timetable.placement.stages()} * timetable.micro_batches;
  const int64_t actions = timetable.action_count();
  if (cells > actions + kSpare) {
    defects.AddAbsent(-1, {},
                      absl::StrCat(timetable.placement.stages(), " stages x ",
                                   timetable.micro_batches, " micro-batches need at least ",
                                   2 * cells, " actions; the table has ", actions));
    return false;
  }
  return true;
}

void CheckAllButProgress(const Timetable& timetable, Census& census, DefectList& defects) {
  CheckRows(timetable, census, defects);
  CheckComplete(timetable, census, defects);
  if (timetable.lowered()) CheckChannels(timetable, defects);
  CheckVersions(timetable, defects);
}

std::vector<Defect> FindDefects(const Timetable& timetable, int limit) {
  DefectList defects(limit);
  if (!CheckShape(timetable, defects)) return defects.Take();
  Census census(timetable);
  CheckAllButProgress(timetable, census, defects);
  CheckProgress(timetable, census, defects);
  std::vector<Defect> found = defects.Take();
  if (found.empty()) return found;
  if (std::optional<Defect> cause = FindMisnumbered(timetable)) {
    found.insert(found.begin(), *std::move(cause));
    if (static_cast<int>(found.size()) > limit) found.pop_back();
  }
  return found;
}

absl::Status ValidateTimetable(const Timetable& timetable) {
  const std::vector<Defect> defects = FindDefects(timetable);
  if (defects.empty()) return absl::OkStatus();
  std::string text = absl::StrCat("timetable ", timetable.name, " is not sound:");
  for (const Defect& defect : defects) absl::StrAppend(&text, "\n  ", ToString(defect));
  return absl::InvalidArgumentError(text);
}

std::string ToString(const Defect& defect) {
  std::string text;
  if (defect.rank >= 0) absl::StrAppend(&text, "rank ", defect.rank, ", ");
  if (defect.position >= 0) absl::StrAppend(&text, "position ", defect.position, ", ");
  if (!defect.action.empty()) absl::StrAppend(&text, defect.action, ": ");
  return text + defect.message;
}

}  // namespace sluice
