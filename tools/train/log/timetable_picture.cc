#include "tools/train/log/timetable_picture.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "schedules/lower.h"
#include "schedules/render/render.h"
#include "schedules/simulate/dealt_times.h"
#include "schedules/simulate/simulate.h"
#include "tools/plan/plan_drawing.h"

namespace sluice {
namespace {

void InForwards(StageCosts* costs) {
  const double longest = *std::max_element(costs->forward.begin(), costs->forward.end());
  if (longest <= 0) return;
  for (std::vector<double>* times :
       {&costs->forward, &costs->input_grad, &costs->weight_grad, &costs->backward,
        &costs->recompute, &costs->send, &costs->link_busy}) {
    for (double& time : *times) time /= longest;
  }
}

std::string LayersOfRank(const RunPlan& plan, int rank) {
  const Partition& partition = plan.request.partition;
  Partition ranges;
  for (const int stage : plan.deal.StagesOf(rank))
    ranges.push_back(partition[static_cast<size_t>(stage) % partition.size()]);
  return LayersNote(ranges);
}

}  // namespace

absl::StatusOr<std::string> DrawTimetable(const RunPlan& plan, StageCosts costs) {
  Timetable table = ComputeOnly(plan.lowered);
  if (absl::Status status = CheckCosts(costs, table.placement.stages()); !status.ok())
    return status;
  InForwards(&costs);
  Simulation run;
  if (plan.has_stage_members()) {
    const DealtTimetable dealt(std::move(table), plan.deal);
    run = SimulateDealt(dealt, costs, {}, Detail::kEveryAction);
    table = DrawnTable(dealt);
  } else {
    absl::StatusOr<Simulation> simulated = Simulate(table, costs);
    if (!simulated.ok()) return simulated.status();
    run = *std::move(simulated);
  }
  SvgOptions options;
  options.facts = {absl::StrCat("bubble ", FormatShare(run.bubble)),
                   "times by FLOPs, in those of the longest forward"};
  if (plan.replicas() > 1) options.facts.push_back(absl::StrCat(plan.replicas(), " replicas"));
  options.peak_name = "memory";
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const int64_t bytes = plan.arenas[static_cast<size_t>(rank)].memory.total;
    options.rank_notes.push_back(LayersOfRank(plan, rank));
    options.peaks.push_back(FormatBytes(static_cast<double>(bytes)));
  }
  return RenderSvg(run, table, options);
}

}  // namespace sluice
