#ifndef SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_QUESTION_H_
#define SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_QUESTION_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedules/pytorch.h"
#include "tools/schedule/question/schedule_costs.h"

// The questions of `sluice schedule` as values: read once from the flags (schedule_flags.h), before
// anything is computed.
namespace sluice {

// Which timetable is asked for. Values without a flag are empty.
struct ScheduleQuestion {
  std::optional<int> ranks, micro_batches, chunks, group, update_every;
  bool choose_chunks = false;      // -v auto: stages may be cut
  bool recompute = false;          // activations are rebuilt before each backward
  std::string placement;           // "looped", "v" or "bidirectional"
  std::vector<int> stage_members;  // [stage] how many ranks share it; empty: one each
  GivenCosts costs;
  std::optional<int> memory_limit;   // (stage, micro-batch) activations that a rank may hold
  std::optional<double> time_limit;  // seconds that `auto` may search
  std::function<bool()> stop;        // OptimiseRequest::stop of `auto`; may be empty
};

enum class ScheduleFormat { kText, kSvg, kHtml, kCsv, kCommsCsv, kTrace, kJson };

// How the answer is shown, and where it is written.
struct ScheduleView {
  ScheduleFormat format = ScheduleFormat::kText;
  std::string output;                // a path; empty: stdout
  std::optional<int> width;          // columns of the text, pixels of the SVG; empty: as usual
  std::optional<std::string> title;  // of the SVG; empty text: none
  bool actions = false;              // JSON also says when each action runs
  PyTorchOptions pytorch;            // of kCommsCsv
};

// `schedule show`: one timetable.
struct ShowQuestion {
  std::string what;  // NAME, FILE.csv or plan.json
  ScheduleQuestion asked;
  ScheduleView view;
  std::string against;   // NAME, FILE.csv or plan.json on the same page; empty: none
  std::string measured;  // the file with the trace of a real run; empty: none
};

// `schedule compare`: one line for each of several timetables, or the best one under each limit.
struct CompareQuestion {
  std::vector<std::string> names;  // empty: the whole catalogue, and auto
  ScheduleQuestion asked;
  ScheduleView view;
  bool memory_sweep = false;
};

// `schedule check`: whether a timetable is sound.
struct CheckQuestion {
  std::string file;
  std::string placement;  // as in ScheduleQuestion
  bool json = false;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_QUESTION_H_
