#ifndef SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_COSTS_H_
#define SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_COSTS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"
#include "tools/schedule/question/schedule_costs_json.h"

namespace sluice {

// The costs of --cost or --costs, read once. The number of stages is known only with a placement;
// the costs on any number of placements can be asked for.
class GivenCosts {
 public:
  // Neither flag: F = I = W = 1.
  GivenCosts() = default;
  // --cost: "F=1,I=1,W=1,send=0", the same for all stages. InvalidArgument names the part that is
  // wrong.
  static absl::StatusOr<GivenCosts> FromText(const std::string& text);
  // --costs: a JSON file with a value per stage. InvalidArgument or NotFound names the file.
  static absl::StatusOr<GivenCosts> FromFile(const std::string& path);
  // The text of such a file; `name` stands for it in errors.
  static absl::StatusOr<GivenCosts> FromJson(std::string text, const std::string& name);

  // The costs that the plan in file `plan` was made for, as `json` has them: in seconds.
  static absl::StatusOr<GivenCosts> FromPlan(std::string json, const std::string& plan);

  // What the stages of one timetable cost, for others with as many stages. `source` stands for it
  // in errors.
  static GivenCosts FromStages(ScheduleCosts costs, std::string source);

  // Whether there are costs: one of the two flags was given, or they are those of a timetable.
  bool given() const { return file_.has_value() || stages_.has_value() || !uniform_.empty(); }
  // Whether --cost says what a RECOMPUTE takes.
  bool prices_recompute() const { return uniform_.contains("RECOMPUTE"); }
  // The path of --costs; null without it.
  const std::string* file() const { return file_.has_value() ? &file_->name() : nullptr; }

  // The costs of a table on `placement`. B = I + W unless given; B without I and W means I = W = B
  // / 2. InvalidArgument names the flag or file, and the field: costs that are for another number
  // of stages, or sums that are too large.
  absl::StatusOr<ScheduleCosts> On(const Placement& placement) const;

 private:
  absl::StatusOr<ScheduleCosts> UniformOn(int stages) const;
  absl::StatusOr<ScheduleCosts> OfTimetable(int stages) const;

  std::map<std::string, double> uniform_;  // the values of --cost
  std::optional<CostsFile> file_;
  std::optional<ScheduleCosts> stages_;
  std::string source_;    // of stages_
  bool seconds_ = false;  // of the file
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_QUESTION_SCHEDULE_COSTS_H_
