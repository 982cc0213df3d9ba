#ifndef SLUICE_TOOLS_SCHEDULE_SCHEDULE_FLAGS_H_
#define SLUICE_TOOLS_SCHEDULE_SCHEDULE_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/schedule/question/schedule_question.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// A subcommand of `sluice schedule` as it was typed; empty where a flag was not given. Only the
// functions below read it and make questions of it, which everything else uses.
struct ScheduleFlags {
  std::string what;  // NAME, FILE.csv or plan.json
  std::vector<std::string> names;
  std::optional<int> ranks, micro_batches, chunks, group, update_every;
  bool choose_chunks = false;
  std::string uniform_costs;  // "F=1,B=2"
  std::string costs_file;
  bool recompute = false;
  std::optional<int> memory_limit;
  bool memory_sweep = false;
  std::string placement;
  std::string time_limit;
  std::string format = "text";
  std::string output;
  std::optional<int> width;
  std::optional<std::string> title;
  std::string against;
  std::string measured;
  std::string stage_replicas;  // "3,1"
  std::string torch;           // "2.15"
  std::optional<int> max_active_stages;
  bool json = false;
  bool actions = false;
  bool brief = false;
};

// Add the options of each subcommand, which write into `flags`.
void AddListFlags(CLI::App& app, ScheduleFlags& flags);
void AddShowFlags(CLI::App& app, ScheduleFlags& flags);
void AddCompareFlags(CLI::App& app, ScheduleFlags& flags);
void AddCheckFlags(CLI::App& app, ScheduleFlags& flags);

// The question that the flags ask. InvalidArgument names the flag with an invalid text, or the
// flags that exclude each other. Reads the file of --costs.
absl::StatusOr<ShowQuestion> ReadShowQuestion(const ScheduleFlags& flags);
absl::StatusOr<CompareQuestion> ReadCompareQuestion(const ScheduleFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_SCHEDULE_FLAGS_H_
