#include "tools/schedule/answer/schedule_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/json_text.h"
#include "schedules/check/validate.h"
#include "schedules/counted.h"
#include "schedules/sum_order.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/answer/schedule_report.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"

namespace sluice {
namespace {

// The largest number of defects that are listed.
constexpr int kMostDefects = 10000;

std::string SoundText(const std::string& file, const Timetable& table) {
  std::string text = absl::StrCat(file, ": sound (", Counted(table.placement.ranks(), "rank"), ", ",
                                  Counted(table.placement.stages(), "stage"), ", ",
                                  Counted(table.micro_batches, "micro-batch"), ", ",
                                  Counted(table.action_count(), "action"),
                                  table.lowered() ? ", with sends and receives" : "", ")\n");
  const SumOrder order = SumOrder::Of(table);
  if (order.ascending()) return text;
  absl::StrAppend(&text, "Weight gradients are summed over the micro-batches in ", order.ToString(),
                  " order: training gives other bits than in ascending ",
                  "order, and the same ones for any partition.\n");
  return text;
}

std::string FormatDefects(const CheckQuestion& question, const Timetable& table,
                          const std::vector<Defect>& defects) {
  if (question.json) return JsonText(DefectsJson(question.file, table, defects)) + "\n";
  const std::string name = NameOfFile(question.file);
  if (defects.empty()) return SoundText(name, table);
  std::string text;
  for (const Defect& defect : defects) {
    absl::StrAppend(&text, name, ": ", ToString(defect), "\n");
  }
  return text;
}

}  // namespace

absl::Status CheckTimetable(const CheckQuestion& question) {
  ScheduleQuestion asked;
  asked.placement = question.placement;
  const absl::StatusOr<FoundTable> found = ReadTable(question.file, asked);
  if (!found.ok()) return found.status();
  const std::vector<Defect> defects = FindDefects(found->table, kMostDefects);
  absl::Status written = WriteOutput("", FormatDefects(question, found->table, defects));
  if (!written.ok() || defects.empty()) return written;
  return WithExitCode(absl::InvalidArgumentError(
                          absl::StrCat(NameOfFile(question.file), ": not a sound timetable: ",
                                       static_cast<int>(defects.size()) == kMostDefects
                                           ? absl::StrCat(kMostDefects, " or more defects")
                                           : Counted(defects.size(), "defect"))),
                      kExitInvalidTimetable);
}

}  // namespace sluice
