#ifndef SLUICE_TESTS_PIPELINE_HAUNTED_LAYER_H_
#define SLUICE_TESTS_PIPELINE_HAUNTED_LAYER_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "comm/local/in_process.h"
#include "models/layers/layer.h"
#include "pipeline/compile/compile_run.h"
#include "pipeline/run/rank_threads.h"
#include "pipeline/train/trainer.h"

namespace sluice {

// A layer that does something else before its forward.
class HauntedLayer : public Layer {
 public:
  using Before = std::function<void(const LayerCall&)>;
  HauntedLayer(std::unique_ptr<Layer> layer, Before before)
      : layer_(std::move(layer)), before_(std::move(before)) {
    decl_ = layer_->decl();
  }
  void Pack(const LayerCall& call) override { layer_->Pack(call); }
  void Forward(const LayerCall& call) override {
    before_(call);
    layer_->Forward(call);
  }
  void Restore(const LayerCall& call) override { layer_->Restore(call); }
  void BackwardInput(const LayerCall& call) override { layer_->BackwardInput(call); }
  void BackwardWeight(const LayerCall& call) override { layer_->BackwardWeight(call); }

 private:
  std::unique_ptr<Layer> layer_;
  Before before_;
};

// Replaces the layers of the request for which `haunts(index)` is true. It is asked each time a
// layer is made: once for the plan, then for every rank that holds the layer.
inline void Haunt(RunRequest* request, std::function<bool(int)> haunts,
                  HauntedLayer::Before before) {
  request->make_layer =
      [spec = request->spec, batch = request->batch, dtype = request->dtype,
       kernels = request->kernels, haunts = std::move(haunts),
       before = std::move(before)](int index) -> absl::StatusOr<std::unique_ptr<Layer>> {
    absl::StatusOr<std::unique_ptr<Layer>> layer = MakeLayer(spec, index, batch, dtype, *kernels);
    if (!layer.ok() || !haunts(index)) return layer;
    return std::make_unique<HauntedLayer>(*std::move(layer), before);
  };
}

// Trains in threads of this process, with layers that hang before their forward until another rank
// has given the run up: those of `haunts`, as for Haunt. Returns the error of the run. Whatever the
// machine's speed, the layers hang for longer than any time-out.
inline absl::Status TrainWithHang(RunRequest request, std::function<bool(int)> haunts,
                                  const Dataset& data, const TrainOptions& options) {
  std::unique_ptr<InProcessGroup> group;
  Haunt(&request, std::move(haunts), [&group](const LayerCall&) {
    while (group->communicator(0).failure().ok()) absl::SleepFor(absl::Milliseconds(1));
  });
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  if (!plan.ok()) return plan.status();
  group = std::make_unique<InProcessGroup>(plan->world_size(), EdgeCapacity(*plan));
  return RunRanks(*group, plan->world_size(), {.pin = false},
                  [&](int /*rank*/, Communicator& world) {
                    return TrainRank(*plan, data, options, {}, nullptr, world).status();
                  });
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_HAUNTED_LAYER_H_
