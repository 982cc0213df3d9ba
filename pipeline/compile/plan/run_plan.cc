#include "pipeline/compile/plan/run_plan.h"

#include <algorithm>

#include "schedules/weight_versions.h"

namespace sluice {

std::vector<int> RankOfLayers(const RunPlan& plan) {
  std::vector<int> ranks(plan.layers.size(), 0);
  const Partition& partition = plan.request.partition;
  const Placement& placement = plan.lowered.placement;
  size_t stage = 0;
  for (size_t layer = 0; layer < ranks.size(); ++layer) {
    while (stage < partition.size() && partition[stage].last < static_cast<int>(layer)) ++stage;
    // Compiling says what is wrong with a partition that does not fit.
    if (static_cast<int>(stage) < placement.model_stages())
      ranks[layer] = plan.deal.first_rank(static_cast<int>(stage));
  }
  return ranks;
}

std::vector<StageOnRank> StagesOnRanks(const RunPlan& plan) {
  std::vector<StageOnRank> all;
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    for (const int stage : plan.deal.StagesOf(plan.pipeline_rank(rank)))
      all.push_back({.rank = rank, .stage = stage});
  }
  return all;
}

int RunPlan::sum_groups() const {
  if (request.sum_groups != 0) return request.sum_groups;
  const bool shares_stages = ranks() > lowered.placement.ranks();
  return shares_stages || zero() >= 2 ? global_micro_batches() : replicas();
}

int RunPlan::AuditedRank(int world_rank) const {
  return replicas() == 1 ? MirroredRank(world_rank) : (world_rank + ranks()) % world_size();
}

int RunPlan::AuditorOf(int world_rank) const {
  return replicas() == 1 ? MirrorOf(world_rank)
                         : (world_rank + world_size() - ranks()) % world_size();
}

AuditTurn RunPlan::TurnOf(int world_rank, int64_t step) const {
  const int rank = pipeline_rank(world_rank);
  const std::vector<int> stages = deal.StagesOf(rank);
  const auto count = static_cast<int64_t>(stages.size());
  const int64_t before = step / request.audit_every - 1;  // audits
  AuditTurn turn{.stage = stages[static_cast<size_t>(before % count)]};
  // Members of a stage, and copies of the model, have some of the step's micro-batches each.
  std::vector<int> own;
  const auto row = static_cast<size_t>(lowered.placement.rank(turn.stage));
  for (const Action& action : lowered.rows[row]) {
    const bool is_forward = action.op == Op::kForward && action.stage == turn.stage;
    if (is_forward && deal.rank(turn.stage, action.micro_batch) == rank)
      own.push_back(action.micro_batch);
  }
  std::sort(own.begin(), own.end());
  turn.micro_batch = own[static_cast<size_t>(before / count) % own.size()];
  return turn;
}

RankGroup RunPlan::GroupOf(int world_rank) const {
  if (!has_stage_members()) {
    return {.size = replicas(),
            .index = replica(world_rank),
            .first = pipeline_rank(world_rank),
            .stride = ranks()};
  }
  const int member = deal.member(world_rank);
  return {.size = deal.members(deal.StagesOf(world_rank).front()),
          .index = member,
          .first = world_rank - member};
}

int RunPlan::GlobalMicroBatch(int replica, int local) const {
  if (replicas() == 1) return local;
  const int group = global_micro_batches() / sum_groups();  // micro-batches
  return (local / group * replicas() + replica) * group + local % group;
}

int RunPlan::update_micro_batches() const { return MicroBatchesPerUpdate(lowered); }

}  // namespace sluice
