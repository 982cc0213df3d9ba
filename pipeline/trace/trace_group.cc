#include "pipeline/trace/trace_group.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

std::string RankName(const RunPlan& plan, int rank) {
  std::string name = absl::StrCat("rank ", rank);
  if (plan.replicas() > 1) absl::StrAppend(&name, " (replica ", plan.replica(rank), ")");
  if (!plan.has_stage_members()) return name;
  const int in_pipeline = plan.pipeline_rank(rank);
  const int stage = plan.deal.StagesOf(in_pipeline).front();
  absl::StrAppend(&name, " (stage ", stage);
  if (plan.deal.members(stage) > 1)
    absl::StrAppend(&name, ", member ", plan.deal.member(in_pipeline));
  return name + ")";
}

}  // namespace

TraceGroup TraceGroupOf(const RunPlan& plan) {
  TraceGroup group{
      .schedule = plan.lowered.name, .replicas = plan.replicas(), .ranks = {}, .split = {}};
  for (int rank = 0; rank < plan.world_size(); ++rank) group.ranks.push_back(RankName(plan, rank));
  for (const std::vector<Action>& row : plan.lowered.rows) {
    for (const Action& action : row) {
      if (action.op == Op::kInputGrad) group.split.insert({action.stage, action.micro_batch});
    }
  }
  return group;
}

}  // namespace sluice
