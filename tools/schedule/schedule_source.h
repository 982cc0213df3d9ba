#ifndef SLUICE_TOOLS_SCHEDULE_SCHEDULE_SOURCE_H_
#define SLUICE_TOOLS_SCHEDULE_SCHEDULE_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/timetable.h"
#include "tools/schedule/schedule_costs.h"

// Where `sluice schedule` gets its tables from.
namespace sluice {

// What the subcommands of `sluice schedule` were asked for.
struct ScheduleFlags {
  std::string what;  // NAME or FILE.csv
  std::vector<std::string> names;
  std::optional<int> ranks, micro_batches, chunks, group, update_every;
  CostFlags costs;
  bool choose_chunks = false;  // -v auto
  bool recompute = false;      // activations are rebuilt before each backward
  std::optional<int> memory_limit;
  bool memory_sweep = false;
  std::string placement;
  std::string time_limit;
  std::string format = "text";
  std::string output;
  std::optional<int> width;    // of text
  std::string against;         // NAME or FILE.csv, on the same page
  std::string measured;        // the trace of a real run
  std::string stage_replicas;  // "3,1"
  bool json = false;
  bool actions = false;
};

// "3,1": how many ranks share each stage; empty for an empty text. InvalidArgument for anything but
// counts of at least 1, 1024 in all at most.
absl::StatusOr<std::vector<int>> ParseStageReplicas(const std::string& text);

// The placement that --placement calls `name`: v, or looped for anything else.
Placement UsualPlacement(const std::string& name, int ranks, int chunks);
// Whether `what` is a file rather than the name of a schedule.
bool NamesFile(const std::string& what);
// The table in the file `flags.what`, placed as --placement says, rebuilding activations as
// --recompute does; it need not be sound.
absl::StatusOr<Timetable> ReadTable(const ScheduleFlags& flags);
// The schedule `name` of the catalogue, of the size and with what else `flags` ask for.
absl::StatusOr<Timetable> GenerateTable(const std::string& name, const ScheduleFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_SCHEDULE_SOURCE_H_
