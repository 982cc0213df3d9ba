#ifndef SLUICE_PIPELINE_COMPILE_PLAN_RUN_PLAN_H_
#define SLUICE_PIPELINE_COMPILE_PLAN_RUN_PLAN_H_

#include <cstdint>
#include <vector>

#include "pipeline/compile/plan/program.h"
#include "pipeline/compile/plan/rank_memory.h"
#include "pipeline/compile/plan/run_request.h"
#include "pipeline/compile/plan/sharding.h"
#include "pipeline/compile/plan/stage_audit.h"
#include "schedules/stage_deal.h"
#include "schedules/timetable.h"

namespace sluice {

// Offsets of one tensor for each parameter: [local layer][parameter].
using ParameterOffsets = std::vector<std::vector<int64_t>>;

constexpr int64_t kNoOffset = -1;

// Where a rank's parameters, their gradients and the optimizer's state lie; kNoOffset where a
// parameter has no such tensor.
struct StateOffsets {
  ParameterOffsets weights;
  ParameterOffsets gradients;
  ParameterOffsets moments1;    // AdamW's m, SGD's momentum
  ParameterOffsets moments2;    // AdamW's v; empty for SGD
  ParameterOffsets low_halves;  // of split parameters
};

// Where a rank keeps, until the end of the step, what the audited micro-batch (RunPlan::TurnOf)
// came with: kNoOffset where none of its stages has any.
struct AuditOffsets {
  int64_t input = kNoOffset;
  int64_t starts = kNoOffset;
  int64_t targets = kNoOffset;
  int64_t output_grad = kNoOffset;
  // The weights' gradients before it added its own, one parameter behind the other.
  int64_t gradients = kNoOffset;
};

// Byte offsets into one rank's arena: parameters, gradients, optimizer state and compute copies,
// then the region that a step's buffers share (training and evaluation use it in turn). Of what a
// group of ranks divides (ZeRO), the rank has its slices.
struct ArenaLayout {
  StateOffsets own;
  ParameterOffsets second_gradients;  // of the groups after the first; empty without groups
  std::vector<int64_t> packed;        // [local layer]
  // Slots 1, 2, ... of the weights and their compute copies: [slot - 1][local layer]. Slot 0 is
  // `own.weights` and `packed`. Layers of a stage with fewer slots have empty lists and kNoOffset.
  std::vector<ParameterOffsets> stashed_weights;
  std::vector<std::vector<int64_t>> stashed_packed;
  // Of the parameters that rank MirroredRank() trains, in its order; empty without a mirror.
  StateOffsets mirror;
  AuditOffsets audit;
  int64_t step_region = 0;        // where the shared region starts
  int64_t norm_work = 0;          // work memory of GradientNorms
  std::vector<int64_t> train;     // [buffer of the training program]
  std::vector<int64_t> evaluate;  // [buffer of the evaluation program]
  RankMemory memory;
};

// The ranks of the world that hold the same stages, and sum their gradients together: one rank of
// each replica of the pipeline, or the members of a stage.
struct RankGroup {
  int size = 1;
  int index = 0;   // which of them the rank is that was asked about
  int first = 0;   // their first rank
  int stride = 1;  // from one of them to the next

  int rank(int k) const { return first + k * stride; }  // the k-th, from 0
};

// Compiled once, before step 0: programs and arenas of all ranks. Of the run's world_size() ranks,
// number replica * ranks() + rank is rank `rank` of that replica's pipeline. Where stages have
// members there is one pipeline, and ranks are numbered as StageDeal says.
struct RunPlan {
  RunRequest request;
  Timetable lowered;  // one row per stage where stages have members, else one per rank
  StageDeal deal;     // of one pipeline
  std::vector<LayerDecl> layers = {};         // of the whole model
  std::vector<RankProgram> train = {};        // [rank of a pipeline]
  std::vector<RankProgram> evaluate = {};     // [rank of a pipeline]
  std::vector<ArenaLayout> arenas = {};       // [rank of the world]
  std::vector<StageAudit> stage_audits = {};  // [stage]; empty without audits
  ShardBounds shards = {};                    // which rank of a group sums which gradients
  // The most messages that one edge carries in a step.
  int max_messages = 0;

  int ranks() const { return deal.ranks(); }  // of one pipeline
  int replicas() const { return request.replicas; }
  int world_size() const { return ranks() * replicas(); }
  int pipeline_rank(int world_rank) const { return world_rank % ranks(); }
  int replica(int world_rank) const { return world_rank / ranks(); }
  // Whether stages have members (RunRequest::stage_members).
  bool has_stage_members() const { return !request.stage_members.empty(); }
  // The group of rank `world_rank` of the world.
  RankGroup GroupOf(int world_rank) const;
  // RunRequest::zero, or 0 where nothing is divided: in the whole run, or in the group of a rank.
  int zero() const { return world_size() > lowered.placement.ranks() ? request.zero : 0; }
  int zero(int world_rank) const { return GroupOf(world_rank).size > 1 ? request.zero : 0; }
  // Whether ranks mirror each other (RunRequest::mirror), and whose trained state rank `rank` keeps
  // then: each rank's is kept by exactly one other.
  bool mirrors() const { return request.mirror && replicas() == 1; }
  int MirroredRank(int rank) const { return (rank + 1) % ranks(); }
  int MirrorOf(int rank) const { return (rank + ranks() - 1) % ranks(); }
  // Whether ranks audit each other (RunRequest::audit_every), and in which steps, from 1.
  bool audits() const { return request.audit_every > 0; }
  bool audits(int64_t step) const { return audits() && step % request.audit_every == 0; }
  // Whose work rank `world_rank` of the world computes again: each rank's is that of one other.
  // With replicas that one has the same stages, else it is MirroredRank().
  int AuditedRank(int world_rank) const;
  int AuditorOf(int world_rank) const;
  // What all ranks are asked about in audited step `step`; `world_rank` has that stage. Over the
  // audited steps it goes through all stages of the rank, and with each round to the next
  // micro-batch.
  AuditTurn TurnOf(int world_rank, int64_t step) const;
  int sum_groups() const;
  // The groups of micro-batches (sum_groups()) whose gradients this rank sums.
  int rank_groups(int world_rank) const { return sum_groups() / GroupOf(world_rank).size; }
  bool asynchronous() const { return lowered.updates != WeightUpdates::kFlush; }
  // Micro-batches of one replica per step.
  int step_micro_batches() const {
    return request.step_micro_batches > 0 ? request.step_micro_batches : lowered.micro_batches;
  }
  int global_micro_batches() const { return step_micro_batches() * replicas(); }
  // The index, among the micro-batches of all replicas, of micro-batch `local` of `replica`, within
  // a step (within a pass, where the timetable covers several steps). Replicas take turns, one group
  // of micro-batches each.
  int GlobalMicroBatch(int replica, int local) const;
  // Steps that the timetable covers; 1 of a synchronous one.
  int window_steps() const { return lowered.micro_batches / step_micro_batches(); }
  // Micro-batches of one replica whose mean gradient makes one update of the weights.
  int update_micro_batches() const;
  // Updates of each stage's weights in a step.
  int step_updates() const { return step_micro_batches() / update_micro_batches(); }
};

// [layer]: the rank of the pipeline that holds it: in the first copy, where the timetable has
// several copies of the model, and the first member of a stage that several ranks share.
std::vector<int> RankOfLayers(const RunPlan& plan);

// A stage on one of the ranks that hold it.
struct StageOnRank {
  int rank = 0;  // of the world
  int stage = 0;
};

// All stages of a run on all their ranks, rank by rank.
std::vector<StageOnRank> StagesOnRanks(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PLAN_RUN_PLAN_H_
