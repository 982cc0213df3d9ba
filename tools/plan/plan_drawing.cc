#include "tools/plan/plan_drawing.h"

#include <utility>
#include <vector>

#include "schedules/render/render.h"
#include "schedules/simulate/dealt_times.h"

namespace sluice {
namespace {

// The timetable with one row per rank, also where several ranks share a stage.
Timetable RowsOfRanks(const Plan& plan) {
  if (!plan.has_replicas()) return plan.timetable;
  std::vector<int> replicas;
  for (const PlanStage& stage : plan.stages) replicas.push_back(stage.replicas);
  return DrawnTable(DealtTimetable(plan.timetable, StageDeal(std::move(replicas), 1)));
}

}  // namespace

std::string DrawPlan(const Plan& plan) {
  Simulation run = plan.simulation;
  if (plan.cuts > 0) {  // the bound over all cuts of a graph is stronger than that of the timetable
    run.lower_bound = plan.lower_bound;
    run.gap = plan.gap();
  }
  return RenderSvg(run, RowsOfRanks(plan));
}

}  // namespace sluice
