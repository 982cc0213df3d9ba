#include "schedules/check/validate_checks.h"

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"

namespace sluice {

bool CheckShape(const Timetable& timetable, DefectList& defects) {
  const int ranks = timetable.placement.ranks();
  if (static_cast<int>(timetable.rows.size()) != ranks) {
    defects.AddAbsent(-1, {},
                      absl::StrCat("the table has ", Counted(timetable.rows.size(), "row"), " for ",
                                   Counted(ranks, "rank")));
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
    defects.AddAbsent(
        -1, {},
        absl::StrCat(Counted(timetable.placement.stages(), "stage"), " x ",
                     Counted(timetable.micro_batches, "micro-batch"), " need at least ", 2 * cells,
                     " actions; the table has ", actions));
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

}  // namespace sluice
