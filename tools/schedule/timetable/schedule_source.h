#ifndef SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_SOURCE_H_
#define SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/timetable.h"
#include "tools/schedule/question/schedule_question.h"

// Reads and generates the timetables of `sluice schedule`.
namespace sluice {

// "3,1": [stage] the number of ranks that share it; empty for an empty text. InvalidArgument unless
// all numbers are at least 1 and their sum is at most 1024.
absl::StatusOr<std::vector<int>> ParseStageMembers(const std::string& text);

// GenerateSchedule for counts that flags gave: where the schedule does not take so many chunks, the
// message names the flag.
absl::StatusOr<Timetable> GenerateAsked(const CatalogueEntry& entry,
                                        const ScheduleRequest& request);

// The placement that --placement calls `name`: V for "v", looped for every other name.
Placement UsualPlacement(const std::string& name, int ranks, int chunks);
// A timetable, and how the lines of its file end, so that it can be written in the same way.
struct FoundTable {
  Timetable table;
  LineEnd line_end = LineEnd::kLf;
  GivenCosts costs;  // of a plan; for other timetables not given
};

// The table in `file`, a CSV, a plan, or either of them in standard input ("-"), with the placement of --placement, and with RECOMPUTE
// actions added for --recompute; it may be unsound. InvalidArgument where it does not have the
// requested size, or for a flag of CheckTakes.
absl::StatusOr<FoundTable> ReadTable(const std::string& file, const ScheduleQuestion& asked);
// The table in the text of a file called `name`, as ReadTable.
absl::StatusOr<FoundTable> ReadTableText(absl::string_view text, const std::string& name,
                                         const ScheduleQuestion& asked);
// The timetable in the text of a plan file called `name`, and the costs that it was priced with.
absl::StatusOr<FoundTable> ReadPlanText(absl::string_view json, const std::string& name);
// Like ReadTable; an error carries exit code 4 where the table is not sound.
absl::StatusOr<FoundTable> ReadSoundTable(const std::string& file, const ScheduleQuestion& asked);
// The schedule `name` of the catalogue, with the requested size and options.
absl::StatusOr<Timetable> GenerateTable(const std::string& name, const ScheduleQuestion& asked);
// Calls ReadSoundTable or GenerateTable.
absl::StatusOr<FoundTable> FindTable(const std::string& what, const ScheduleQuestion& asked);

// `asked` with the costs that `found` brings along, unless --cost or --costs gives others.
ScheduleQuestion WithCostsOf(const FoundTable& found, ScheduleQuestion asked);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_SOURCE_H_
