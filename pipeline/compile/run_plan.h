#ifndef SLUICE_PIPELINE_COMPILE_RUN_PLAN_H_
#define SLUICE_PIPELINE_COMPILE_RUN_PLAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/model_spec.h"
#include "pipeline/compile/predict_memory.h"
#include "pipeline/compile/program.h"
#include "schedules/stage_deal.h"

namespace sluice {

// Makes a layer of the model by its index.
using LayerFactory = std::function<absl::StatusOr<std::unique_ptr<Layer>>(int index)>;

// What a run computes and how it is cut; everything else follows from it.
struct RunRequest {
  ModelSpec spec;
  BatchShape batch;
  DType dtype = DType::kFloat32;
  Timetable timetable;               // sound; compute-only or lowered
  Partition partition;               // a range of layers a stage of the model
  std::vector<Recompute> recompute;  // as in ProgramRequest: a policy a stage of the model
  // Rebuilds activations ahead of the backward, as RecomputeAhead does, not within it; where the
  // backward follows its forward at once, they are kept.
  bool recompute_ahead = false;
  // Copies of the whole pipeline, each on ranks of its own. A step takes the timetable's
  // micro-batches times these; the run computes, to the bit, what one pipeline with so many
  // micro-batches and as many `sum_groups` does.
  int replicas = 1;
  // Instead of those: ranks of each stage, which share out its micro-batches in groups (StageDeal;
  // PipeDream's replicated stages). The timetable has a row a stage, and a step takes no more
  // micro-batches than it has. Empty: one rank each.
  std::vector<int> stage_replicas = {};
  // What the replicas divide among themselves: 1: the optimizer's state (ZeRO-1); 2: the sums of
  // gradients too. Nothing where there is one replica.
  int zero = 0;
  // Groups of a step's micro-batches whose gradients are summed before the groups are, in order; a
  // multiple of the replicas, of every stage's. 0: as many as replicas; with zero 2 as many as
  // micro-batches, since only what is summed over the replicas can be divided among them; likewise
  // with replicated stages, which work at the same time on as many groups as they have replicas.
  int sum_groups = 0;
  // Micro-batches of a step where the timetable covers several steps, as asynchronous ones may:
  // what is reported and what the learning rate goes by. 0: all of the timetable's.
  int step_micro_batches = 0;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  // Threads of each rank's kernels. Kernel libraries fix algorithms and work areas by it when a
  // layer is made.
  int threads_per_stage = 1;
  // Of the device that the run is on.
  const Kernels* kernels = &CpuKernels();
  // Where layers come from; empty: MakeLayer over `kernels`. Called by every rank's thread for its
  // own layers.
  LayerFactory make_layer = {};

  absl::StatusOr<std::unique_ptr<Layer>> MakeLayerAt(int index) const;
};

// Offsets of one tensor for each parameter: [local layer][parameter].
using ParameterOffsets = std::vector<std::vector<int64_t>>;

constexpr int64_t kNoOffset = -1;

// Byte offsets into one rank's arena: parameters, gradients, optimizer state and compute copies,
// then the region that a step's buffers share (training and evaluation use it in turn). Of what the
// replicas divide among themselves, the rank has its replica's slices.
struct ArenaLayout {
  ParameterOffsets weights;
  ParameterOffsets gradients;
  ParameterOffsets second_gradients;  // of the groups after the first; empty without groups
  ParameterOffsets moments1;          // AdamW's m, SGD's momentum
  ParameterOffsets moments2;          // AdamW's v; empty for SGD
  std::vector<int64_t> packed;        // [local layer]
  // Slots 1, 2, ... of the weights and their compute copies: [slot - 1][local layer]. Slot 0 is
  // `weights` and `packed`. Layers of a stage with fewer slots have empty lists and kNoOffset.
  std::vector<ParameterOffsets> stashed_weights;
  std::vector<std::vector<int64_t>> stashed_packed;
  int64_t step_region = 0;        // where the shared region starts
  int64_t norm_work = 0;          // work memory of GradientNorms
  std::vector<int64_t> train;     // [buffer of the training program]
  std::vector<int64_t> evaluate;  // [buffer of the evaluation program]
  RankMemory memory;
};

// Compiled once, before step 0: programs and arenas of all ranks. Of the run's world_size() ranks,
// number replica * ranks() + rank is rank `rank` of that replica's pipeline. With replicated stages
// there is one pipeline, and ranks are numbered as StageDeal says.
struct RunPlan {
  RunRequest request;
  Timetable lowered;  // a row a stage where stages are replicated, else a row a rank
  StageDeal deal;     // of one pipeline
  std::vector<LayerDecl> layers = {};      // of the whole model
  std::vector<RankProgram> train = {};     // [rank of a pipeline]
  std::vector<RankProgram> evaluate = {};  // [rank of a pipeline]
  std::vector<ArenaLayout> arenas = {};    // [rank of the world]
  ShardBounds shards = {};                 // which holder of a stage sums which gradients
  // The most messages that one edge carries in a step.
  int max_messages = 0;

  int ranks() const { return deal.ranks(); }  // of one pipeline
  int replicas() const { return request.replicas; }
  int world_size() const { return ranks() * replicas(); }
  int pipeline_rank(int world_rank) const { return world_rank % ranks(); }
  int replica(int world_rank) const { return world_rank / ranks(); }
  // Whether stages have replicas of their own.
  bool dealt() const { return !request.stage_replicas.empty(); }
  // The ranks of the world that hold the same stages as `world_rank` does: how many, which of them
  // it is, and which rank is their k-th.
  int holders(int world_rank) const;
  int holder(int world_rank) const;
  int HolderRank(int world_rank, int k) const;
  // What is divided at all, and what the holders of a rank's stages divide.
  int zero() const { return world_size() > lowered.placement.ranks() ? request.zero : 0; }
  int zero(int world_rank) const { return holders(world_rank) > 1 ? request.zero : 0; }
  int sum_groups() const;
  // In how many groups of its own micro-batches a rank sums gradients.
  int rank_groups(int world_rank) const { return sum_groups() / holders(world_rank); }
  bool asynchronous() const { return lowered.updates != WeightUpdates::kFlush; }
  // Of one replica.
  int step_micro_batches() const {
    return request.step_micro_batches > 0 ? request.step_micro_batches : lowered.micro_batches;
  }
  int global_micro_batches() const { return step_micro_batches() * replicas(); }
  // The number, among the micro-batches of a step of all replicas (of a pass, where the timetable
  // covers several steps), of `replica`'s micro-batch `local`. Replicas take turns, a group of
  // micro-batches each.
  int GlobalMicroBatch(int replica, int local) const;
  // Steps that the timetable covers; 1 of a synchronous one.
  int window_steps() const { return lowered.micro_batches / step_micro_batches(); }
  // Micro-batches of one replica whose mean gradient makes one update of the weights.
  int update_micro_batches() const;
  // Updates of each stage's weights in a step.
  int step_updates() const { return step_micro_batches() / update_micro_batches(); }
};

// [layer]: the rank of the pipeline that holds it; its first copy, where the timetable has several,
// and the first of a replicated stage's ranks.
std::vector<int> RankOfLayers(const RunPlan& plan);

// A stage on one of the ranks that hold it.
struct StageOnRank {
  int rank = 0;  // of the world
  int stage = 0;
};

// All of a run's, rank by rank.
std::vector<StageOnRank> StagesOnRanks(const RunPlan& plan);

// InvalidArgument where timetable, partition, policies, groups, steps and replicas do not fit each
// other.
absl::StatusOr<RunPlan> CompileRun(const RunRequest& request);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_RUN_PLAN_H_
