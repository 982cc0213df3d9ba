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

  // A call of local layer `local` with its parameters, gradients and compute copy filled in.
  LayerCall CallOf(int local) const;

 private:
  RankState(const RunPlan& plan, int rank, Arena arena)
      : plan_(plan), rank_(rank), arena_(std::move(arena)) {}
  void BindParameters();

  const RunPlan& plan_;
  const int rank_;
  Arena arena_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<ParameterView> parameters_;
  std::vector<std::vector<float*>> weights_;    // [local layer][parameter]
  std::vector<std::vector<float*>> gradients_;  // likewise
};

// Number of parameters (tensors) of the model, and the name of each in canonical order.
std::vector<const ParameterDecl*> CanonicalParameters(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RANK_STATE_H_
