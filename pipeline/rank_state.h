#ifndef SLUICE_PIPELINE_RANK_STATE_H_
#define SLUICE_PIPELINE_RANK_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "models/layer.h"
#include "pipeline/arena.h"
#include "pipeline/run_plan.h"

namespace sluice {

// One parameter on the rank that holds it. `moment2` is null for SGD.
struct ParameterView {
  int global_index =
      0;  // position in the model's canonical order: by layer, then as the layer declares them
  int stage = 0;    // that holds it
  int replica = 0;  // copy of the model that the stage is part of
  int local = 0;    // its layer, among the rank's
  const ParameterDecl* decl = nullptr;
  int64_t elements = 0;
  float* weight = nullptr;
  float* gradient = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
};

// What a rank keeps from step to step: its arena, its layers, and where in the arena everything
// lies.
class RankState {
 public:
  // Allocates the arena on the calling thread, whose memory node it will be on.
  static absl::StatusOr<std::unique_ptr<RankState>> Create(const RunPlan& plan, int rank);

  const RunPlan& plan() const { return plan_; }
  int rank() const { return rank_; }
  const Arena& arena() const { return arena_; }
  // Offset of the region that is free between steps.
  int64_t step_region() const { return plan_.arenas[static_cast<size_t>(rank_)].step_region; }
  Layer& layer(int local) { return *layers_[static_cast<size_t>(local)]; }
  int layer_count() const { return static_cast<int>(layers_.size()); }
  const std::vector<ParameterView>& parameters() const { return parameters_; }

  // Fresh weights for `seed`; moments are zeroed.
  void Initialize(uint64_t seed);
  // Rebuilds the layers' compute copies; needed after every change of the weights.
  void Pack();

  // A call of local layer `local` with its parameters and compute copy, those of version slot
  // `slot`, and its gradients filled in.
  LayerCall CallOf(int local, int slot = 0, bool second_gradient = false) const;

  // What follows names a stage by its position among the rank's.
  // Adds the gradients of the group that has just ended to those of the groups before it.
  void AddGroup(int stage);
  // Makes slot `to` the newest weights of the stage, equal to those in `from` so far: its
  // parameters' views point there. The compute copy is to be made with PackStage once they have
  // been updated.
  void OpenSlot(int stage, int from, int to);
  void PackStage(int stage, int slot);
  // Brings the newest weights of every stage back to slot 0, where they are kept between passes.
  void Settle();

 private:
  RankState(const RunPlan& plan, int rank, Arena arena)
      : plan_(plan), rank_(rank), arena_(std::move(arena)) {}
  void BindParameters();
  void BindLayer(const RankStage& stage, int local, int first_index);
  const RankStage& StageAt(int stage) const;
  size_t IndexInLayer(const ParameterView& view) const;

  const RunPlan& plan_;
  const int rank_;
  Arena arena_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<ParameterView> parameters_;
  float* Weight(int local, size_t parameter, int slot) const {
    return weights_[static_cast<size_t>(slot)][static_cast<size_t>(local)][parameter];
  }

  // Pointers to tensors of one kind: [local layer][parameter].
  using Pointers = std::vector<std::vector<float*>>;
  Pointers PointersTo(const ParameterOffsets& offsets) const;

  std::vector<Pointers> weights_;  // [slot]
  Pointers gradients_;
  Pointers second_gradients_;  // empty without groups
  std::vector<int> newest_;    // [local stage]: slot of the newest weights
};

// Number of parameters (tensors) of the model, and the name of each in canonical order.
std::vector<const ParameterDecl*> CanonicalParameters(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RANK_STATE_H_
