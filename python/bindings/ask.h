#ifndef SLUICE_PYTHON_BINDINGS_ASK_H_
#define SLUICE_PYTHON_BINDINGS_ASK_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/planning/answer/answer.h"
#include "schedules/check/defect.h"
#include "schedules/csv.h"
#include "tools/schedule/answer/schedule_page.h"

// What the Python package asks, as the command line asks it: the keywords of Python are the flags
// of `sluice schedule` and `sluice plan`, read by the same tables of options. No Python here.
namespace sluice::python {

// "--ranks=4", "--recompute": a flag of the command line, each with its value.
using Flags = std::vector<std::string>;

// True when the answer is not wanted any more; asked from several threads.
using StopFunction = std::function<bool()>;

struct AskedTimetable {
  Timetable table;  // as a file has it: with one row per stage where several ranks share it
  LineEnd line_end = LineEnd::kLf;
  std::vector<Defect> defects;
  std::optional<ShownSchedule> shown;  // one row per rank; absent where there are defects
  bool cut = false;                    // as Comparison's
};

// The costs of each stage, as --costs has them: the text of such a file.
using CostsText = std::optional<std::string>;

// The schedule `name` of the catalogue, or auto. With `one_of_several`, without the flags that it
// does not have. An error carries the command line's exit code.
absl::StatusOr<AskedTimetable> AskSchedule(const std::string& name, const Flags& flags,
                                           const CostsText& costs, bool one_of_several,
                                           const StopFunction& stop);

// Whether `flags` go with `names`, several schedules of which each is then asked for on its own
// (none: the whole catalogue, and auto). InvalidArgument for what is wrong with the question
// itself, and for what none of them takes.
absl::Status CheckComparison(const std::vector<std::string>& names, const Flags& flags,
                             const CostsText& costs);

// The timetable in a CSV text, which may be unsound; `name` stands for it in errors.
absl::StatusOr<AskedTimetable> AskTable(const std::string& text, const std::string& name,
                                        const Flags& flags, const CostsText& costs);

// The timetable of a plan file, of which `json` is the text, in seconds where it has its costs.
absl::StatusOr<AskedTimetable> AskPlanTable(const std::string& json, const std::string& name);

// `table` in PyTorch's compute_comms format, for that version of PyTorch. InvalidArgument where
// several ranks share a stage.
absl::StatusOr<std::string> CommsCsv(const AskedTimetable& table, const std::string& torch,
                                     int max_active_stages);

// The flags that AskPlan takes, without their dashes: "micro-batches".
std::vector<std::string> PlanFlagNames();

// The plan of `model`: a preset or a path. FailedPrecondition and DeadlineExceeded: there is none.
absl::StatusOr<PlanAnswer> AskPlan(const std::string& model, const Flags& flags,
                                   const StopFunction& stop);

// The timetable of a plan with a schedule, in seconds.
AskedTimetable TimetableOf(const Plan& plan);

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_BINDINGS_ASK_H_
