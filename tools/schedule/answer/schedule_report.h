#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_REPORT_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/simulate/simulate.h"

namespace sluice {

// The object that `schedule show --json` prints; with `rank_actions` only when that is asked for.
nlohmann::ordered_json SimulationJson(const Simulation& run, const Timetable& table, bool actions);
// {file, sound, defects: [{rank, position, action, message}]}; for a sound timetable also
// sum_order, in the form of SumOrder::ToString.
nlohmann::ordered_json DefectsJson(const std::string& file, const Timetable& table,
                                   const std::vector<Defect>& defects);

// One line of `schedule compare`.
struct Comparison {
  Timetable table;
  Simulation run;
};
std::string ComparisonText(const std::vector<Comparison>& lines);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_REPORT_H_
