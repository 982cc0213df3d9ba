#ifndef SLUICE_PIPELINE_RUN_PLAN_H_
#define SLUICE_PIPELINE_RUN_PLAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/predict_memory.h"
#include "pipeline/program.h"

namespace sluice {

// Makes a layer of the model by its index.
using LayerFactory = std::function<absl::StatusOr<std::unique_ptr<Layer>>(int index)>;

// What a run computes and how it is cut; everything else follows from it.
struct RunRequest {
  ModelSpec spec;
  BatchShape batch;
  DType dtype = DType::kFloat32;
  Timetable timetable;  // sound; compute-only or lowered
  Partition partition;
  std::vector<Recompute> recompute;  // a policy a stage
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  // Threads of each rank's kernels. Kernel libraries fix algorithms and work areas by it when a
  // layer is made.
  int threads_per_stage = 1;
  // Where layers come from; empty: MakeLayer over the CPU's kernels. Called by every rank's thread
  // for its own layers.
  LayerFactory make_layer = {};

  absl::StatusOr<std::unique_ptr<Layer>> MakeLayerAt(int index) const;
};

// Byte offsets into one rank's arena: parameters, gradients, optimizer state and compute copies,
// then the region that a step's buffers share (training and evaluation use it in turn).
struct ArenaLayout {
  std::vector<std::vector<int64_t>> weights;  // [local layer][parameter]
  std::vector<std::vector<int64_t>> gradients;
  std::vector<std::vector<int64_t>> moments1;  // AdamW's m, SGD's momentum
  std::vector<std::vector<int64_t>> moments2;  // AdamW's v; empty lists for SGD
  std::vector<int64_t> packed;                 // [local layer]
  int64_t step_region = 0;                     // where the shared region starts
  std::vector<int64_t> train;                  // [buffer of the training program]
  std::vector<int64_t> evaluate;               // [buffer of the evaluation program]
  RankMemory memory;
};

// Compiled once, before step 0: programs and arenas of all ranks.
struct RunPlan {
  RunRequest request;
  Timetable lowered;
  std::vector<LayerDecl> layers = {};      // of the whole model
  std::vector<RankProgram> train = {};     // [rank]
  std::vector<RankProgram> evaluate = {};  // [rank]
  std::vector<ArenaLayout> arenas = {};    // [rank]
  // The most messages that one edge carries in a step.
  int max_messages = 0;
  // A fingerprint of what all ranks must agree on: layers, shapes, timetable, partition, policies.
  uint64_t fingerprint = 0;

  int ranks() const { return lowered.placement.ranks(); }
};

absl::StatusOr<RunPlan> CompileRun(const RunRequest& request);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_PLAN_H_
