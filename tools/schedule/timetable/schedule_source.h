#ifndef SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_SOURCE_H_
#define SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/csv.h"
#include "schedules/timetable.h"
#include "tools/schedule/question/schedule_question.h"

// Where `sluice schedule` gets its tables from.
namespace sluice {

// "3,1": how many ranks share each stage; empty for an empty text. InvalidArgument for anything but
// counts from 1 that add up to at most 1024.
absl::StatusOr<std::vector<int>> ParseStageMembers(const std::string& text);

// The placement that --placement calls `name`: V for "v", looped for anything else.
Placement UsualPlacement(const std::string& name, int ranks, int chunks);
// Whether `what` is a file rather than the name of a schedule.
bool NamesFile(const std::string& what);
// `asked` as it is meant for schedule `name`, one of several that it asks for: without chunks and
// groups where that schedule has none.
ScheduleQuestion QuestionFor(const std::string& name, ScheduleQuestion asked);

// A timetable, and how the lines of its file end: it is written back as it was read.
struct FoundTable {
  Timetable table;
  LineEnd line_end = LineEnd::kLf;
};

// The table in `file`, placed as --placement says, rebuilding activations as --recompute does; it
// need not be sound. InvalidArgument where it is not of the size that was asked for.
absl::StatusOr<FoundTable> ReadTable(const std::string& file, const ScheduleQuestion& asked);
// ReadTable; an error carries exit code 4 where the table is not sound.
absl::StatusOr<FoundTable> ReadSoundTable(const std::string& file, const ScheduleQuestion& asked);
// The schedule `name` of the catalogue, of the size and with what else is asked for.
absl::StatusOr<Timetable> GenerateTable(const std::string& name, const ScheduleQuestion& asked);
// ReadSoundTable or GenerateTable.
absl::StatusOr<FoundTable> FindTable(const std::string& what, const ScheduleQuestion& asked);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_SOURCE_H_
