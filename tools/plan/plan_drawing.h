#ifndef SLUICE_TOOLS_PLAN_PLAN_DRAWING_H_
#define SLUICE_TOOLS_PLAN_PLAN_DRAWING_H_

#include <optional>
#include <string>

#include "partitioner/planning/answer/answer.h"
#include "schedules/partition.h"
#include "schedules/simulate/simulation.h"
#include "schedules/timetable.h"

namespace sluice {

// One step of `plan`, with one row per rank. Requires a plan with a schedule.
struct DrawnStep {
  Timetable table;
  Simulation run;  // in seconds; its bound is for these costs, the plan's for all that was tried
};
DrawnStep DrawnStepOf(const Plan& plan);

// One step of a plan as SVG, with one row per rank: its layers, its memory, and the seconds of its
// actions; where devices differ, of which kind its own are. `title` and `width` as in SvgOptions.
// Requires a plan with a schedule.
std::string DrawPlan(const PlanAnswer& answer, const std::optional<std::string>& title, int width);

// What a rank holds, beside its name: "layers 0-13", "layers 0-4, 17-21"; of many ranges, how many
// layers and ranges there are.
std::string LayersNote(const Partition& ranges);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_DRAWING_H_
