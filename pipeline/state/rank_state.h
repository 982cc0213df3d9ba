#ifndef SLUICE_PIPELINE_STATE_RANK_STATE_H_
#define SLUICE_PIPELINE_STATE_RANK_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "models/layers/layer.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/state/arena.h"

namespace sluice {

// One parameter on a rank that holds it. `moment2` is null for SGD. One that is frozen has neither
// gradient nor moments, and no elements that this rank updates.
struct ParameterView {
  // Position in the model's canonical order: by layer, then as the layer declares them.
  int global_index = 0;
  int stage = 0;       // that holds it
  int model_copy = 0;  // that the stage is part of, where the timetable has several (Chimera)
  int local = 0;       // its layer, among the rank's
  const ParameterDecl* decl = nullptr;
  int64_t elements = 0;
  void* weight = nullptr;  // all elements, of the declaration's type
  // Weight and moments are those of the parameter that it is tied to, which this rank has too.
  bool shared = false;
  // The elements that this rank updates, of which it has gradient and moments: all of them, or,
  // where the ranks of a group divide the optimizer's state among themselves, its slice.
  int64_t first = 0;
  int64_t count = 0;
  float* gradient = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  LowHalves low_halves = {};  // of these elements, where the parameter is split
  // The elements whose gradient this rank sums over its group: its slice, which is everything where
  // the group has one rank.
  int64_t slice_first = 0;
  int64_t slice_count = 0;

  // The weights among those elements.
  void* updated_weight() const {
    return static_cast<std::byte*>(weight) + first * SizeOf(decl->dtype);
  }
  float* slice_gradient() const { return gradient + (slice_first - first); }
};

// What a rank keeps from step to step: its arena, its layers, and where in the arena everything
// lies.
class RankState {
 public:
  // Allocates the arena: on a CPU on the calling thread, whose memory node it will be on. `device`
  // must outlive the state.
  static absl::StatusOr<std::unique_ptr<RankState>> Create(const RunPlan& plan, int world_rank,
                                                           Device& device = CpuDevice());
  // What this state keeps from step to step, in the host's memory and only to be read: the arena has
  // no room for a step.
  absl::StatusOr<std::unique_ptr<RankState>> CopyOnHost() const;

  const RunPlan& plan() const { return plan_; }
  int rank() const { return plan_.pipeline_rank(world_rank_); }  // of its pipeline
  int world_rank() const { return world_rank_; }
  int replica() const { return plan_.replica(world_rank_); }  // of the pipeline
  int zero() const { return plan_.zero(world_rank_); }
  const RankProgram& train_program() const { return plan_.train[static_cast<size_t>(rank())]; }
  const RankProgram& evaluate_program() const {
    return plan_.evaluate[static_cast<size_t>(rank())];
  }
  const ArenaLayout& layout() const { return plan_.arenas[static_cast<size_t>(world_rank_)]; }
  const Arena& arena() const { return arena_; }
  Device& device() const { return device_; }
  Stream stream() const { return stream_; }  // on which all work of the rank is queued
  const Kernels& kernels() const { return *plan_.request.kernels; }
  // Offset of the region that is free between steps.
  int64_t step_region() const { return layout().step_region; }
  Layer& layer(int local) { return *layers_[static_cast<size_t>(local)]; }
  int layer_count() const { return static_cast<int>(layers_.size()); }
  const std::vector<ParameterView>& parameters() const { return parameters_; }
  // What rank plan().MirroredRank(rank()) trains, as that rank's parameters() but for those that
  // are frozen: this rank's copy of it, with gradients of its own (mirror.h). `local` is that
  // rank's. Empty without a mirror.
  const std::vector<ParameterView>& mirrored() const { return mirrored_; }

  // Fresh weights for `seed`, or only those that `draws` is true of, where the others are to be read
  // from a file: a large model's take many seconds. Moments are zeroed.
  void Initialize(uint64_t seed, const std::function<bool(const ParameterDecl&)>& draws = nullptr);
  // Rebuilds the layers' compute copies; needed after every change of the weights.
  void Pack();

  // A call of local layer `local` with its parameters and compute copy, those of version slot
  // `slot`, and its gradients filled in.
  LayerCall CallOf(int local, int slot = 0, bool second_gradient = false) const;
  // Where the parameter's gradients of one micro-batch group are summed; null where they have no
  // place of their own.
  float* WholeGradient(const ParameterView& view, bool second_gradient) const;
  // The view of each parameter of local layer `local`.
  absl::Span<const ParameterView> ParametersOf(int local) const;

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
  RankState(const RunPlan& plan, int world_rank, Device& device, Stream stream, Arena arena)
      : plan_(plan),
        world_rank_(world_rank),
        device_(device),
        stream_(stream),
        arena_(std::move(arena)) {}
  // With the first `bytes` bytes of the arena.
  static absl::StatusOr<std::unique_ptr<RankState>> Create(const RunPlan& plan, int world_rank,
                                                           Device& device, int64_t bytes);
  void BindParameters();
  void BindLayer(const RankStage& stage, int local, int first_index);
  void BindMirror();
  void ZeroMoments();
  // Parameter `p` of layer `local` of `stage` of a rank whose tensors lie at `offsets`: who it is,
  // and its weights. `before`: the rank's parameters before it.
  ParameterView Identify(const StateOffsets& offsets, const RankStage& stage, int local, size_t p,
                         const ParameterDecl& decl, const std::vector<ParameterView>& before) const;
  // The place of gradient and optimizer state, of the elements that the view says are updated.
  void BindState(const StateOffsets& offsets, size_t p, ParameterView* view) const;
  const RankStage& StageAt(int stage) const;
  size_t IndexInLayer(const ParameterView& view) const;

  const RunPlan& plan_;
  const int world_rank_;
  Device& device_;
  const Stream stream_;
  Arena arena_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<ParameterView> parameters_;
  std::vector<size_t> first_view_;  // [local layer], and one more
  std::vector<ParameterView> mirrored_;
  void* Weight(int local, size_t parameter, int slot) const {
    return weights_[static_cast<size_t>(slot)][static_cast<size_t>(local)][parameter];
  }

  // Pointers to tensors of one kind: [local layer][parameter].
  template <class T>
  using PointersTo = std::vector<std::vector<T*>>;
  using Pointers = PointersTo<float>;
  template <class T>
  PointersTo<T> Point(const ParameterOffsets& offsets) const;

  std::vector<PointersTo<void>> weights_;  // [slot]
  // Null where gradients are sharded: whole ones then live within a step only.
  Pointers gradients_;
  Pointers second_gradients_;  // empty without groups
  std::vector<int> newest_;    // [local stage]: slot of the newest weights
};

// Number of parameters (tensors) of the model, and the name of each in canonical order.
std::vector<const ParameterDecl*> CanonicalParameters(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_RANK_STATE_H_
