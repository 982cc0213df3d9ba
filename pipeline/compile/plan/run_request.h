#ifndef SLUICE_PIPELINE_COMPILE_PLAN_RUN_REQUEST_H_
#define SLUICE_PIPELINE_COMPILE_PLAN_RUN_REQUEST_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "models/layers/layer.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "models/spec/optimizer_kind.h"
#include "schedules/partition.h"
#include "schedules/timetable.h"

namespace sluice {

// Makes a layer of the model by its index.
using LayerFactory = std::function<absl::StatusOr<std::unique_ptr<Layer>>(int index)>;

// What a run computes and how it is cut; everything else follows from it.
struct RunRequest {
  ModelSpec spec;
  BatchShape batch;
  DType dtype = DType::kFloat32;
  // Samples hold several documents, which see nothing of each other, or targets that do not count
  // (Dataset::has_documents): every stage reads where documents start.
  bool documents = false;
  Adaptation adaptation = {};        // what of the model is trained
  Timetable timetable;               // sound; compute-only or lowered
  Partition partition;               // a range of layers per stage of the model
  std::vector<Recompute> recompute;  // as in ProgramRequest: one policy per stage
  // Rebuilds activations ahead of the backward, as RecomputeAhead does, not within it; where the
  // backward follows its forward at once, they are kept.
  bool recompute_ahead = false;
  // Replicas of the whole pipeline, each on its own ranks. A step takes `replicas` times the
  // timetable's micro-batches; the run computes, to the bit, what one pipeline computes with that
  // number of micro-batches and the same `sum_groups`.
  int replicas = 1;
  // Instead of replicas: [stage] the number of its members, the ranks that share it and take its
  // micro-batches in turn, in groups (StageDeal; PipeDream's replicated stages). The timetable has one
  // row per stage, and a step takes no more micro-batches than it has. Empty: one rank per stage.
  std::vector<int> stage_members = {};
  // What the ranks that sum gradients together (RankGroup) divide among themselves: 1: the
  // optimizer's state (ZeRO-1); 2: the sums of gradients too. A group of one rank divides nothing.
  int zero = 0;
  // With one replica: every rank also keeps the trained state of the next one, as it is after each
  // step, so that a rank that is lost takes nothing with it (state/mirror.h). Replicas without ZeRO
  // hold each other's state as it is, and nothing changes for them.
  bool mirror = false;
  // Every so many steps each rank computes one micro-batch of another rank again and compares all
  // bits, so that a rank whose hardware computes wrong is found (pipeline/audit); 0: never.
  int audit_every = 0;
  // Groups of a step's micro-batches whose gradients are summed before the groups are, in order; a
  // multiple of the replicas, and of every stage's members. 0: as many as there are replicas; with
  // zero 2 as many as micro-batches, since only what is summed over the group can be divided in it;
  // likewise where stages have members, which work on one group each at the same time.
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

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PLAN_RUN_REQUEST_H_
