#ifndef SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_NAMES_H_
#define SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/generators/catalogue.h"
#include "tools/schedule/question/schedule_question.h"

// What the words of `sluice schedule` name: a schedule of the catalogue, auto or a file; and which
// flags each of them takes.
namespace sluice {

// The name of the optimiser on the command line.
constexpr char kAuto[] = "auto";
// Its row in `schedule list`; it has no generator.
CatalogueEntry AutoEntry();
// That of a schedule of the catalogue, or of auto; NotFound names what is like it.
absl::StatusOr<CatalogueEntry> FindEntry(const std::string& name);

inline constexpr char kStandardInput[] = "-";  // in the place of a file
// What messages call a file: its path, or "standard input".
std::string NameOfFile(const std::string& file);
// Whether `what` is a file rather than the name of a schedule: a FILE.csv, a plan (FILE.json) or
// standard input.
bool NamesFile(const std::string& what);
// Whether the file is a plan.
bool IsPlan(const std::string& file);

// Of --group and --update-every, which only some schedules take: InvalidArgument where `entry` does
// not take one that is given.
absl::Status CheckTakes(const CatalogueEntry& entry, const ScheduleQuestion& asked);
// The same of the file `name`, which takes none.
absl::Status CheckFileTakes(const std::string& name, const ScheduleQuestion& asked);
// The same of several schedules that are asked for (names of the catalogue, auto, files), and of
// --chunks: only where none of them takes it. The others ignore it, see QuestionFor.
absl::Status CheckTaken(const std::vector<std::string>& names, const ScheduleQuestion& asked);
// `asked` for `name`, one of several: without what that one has no use for of chunks, groups and
// the micro-batches of an update.
ScheduleQuestion QuestionFor(const std::string& name, ScheduleQuestion asked);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_NAMES_H_
