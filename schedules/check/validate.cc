#include "schedules/check/validate.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/check/validate_checks.h"

namespace sluice {

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
  return absl::InvalidArgumentError(absl::StrCat(
      "timetable ", timetable.name,
      " is not sound: ", absl::StrJoin(defects, "; ", [](std::string* text, const Defect& defect) {
        absl::StrAppend(text, ToString(defect));
      })));
}

}  // namespace sluice
