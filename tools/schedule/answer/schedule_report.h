#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_REPORT_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_REPORT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/simulate/simulate.h"
#include "tools/schedule/timetable/priced_timetable.h"

namespace sluice {

// The object that `schedule show --json` prints; with `rank_actions` only when that is asked for.
nlohmann::ordered_json SimulationJson(const Simulation& run, const Timetable& table, bool actions);
// {file, sound, defects: [{rank, position, action, message}]}; for a sound timetable also
// sum_order, in the form of SumOrder::ToString.
nlohmann::ordered_json DefectsJson(const std::string& file, const Timetable& table,
                                   const std::vector<Defect>& defects);

// Of a schedule that keeps no rank within --memory-limit.
struct DoesNotFit {
  std::string why;
  HeldActivations held;  // nothing where there is no timetable
};

// One line of `schedule compare`.
struct Comparison {
  Timetable table;  // of one that does not fit, only its name
  Simulation run;
  std::optional<DoesNotFit> does_not_fit = {};
  bool cut = false;  // the costs of a stage are shared by its rank's chunks (-v auto)
};
std::string ComparisonText(const std::vector<Comparison>& lines);
// The same as a list of what SimulationJson returns, with `fits`: false where a schedule does not,
// which has null for what has no value, and `why`.
nlohmann::ordered_json ComparisonJson(const std::vector<Comparison>& lines, bool actions);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_REPORT_H_
