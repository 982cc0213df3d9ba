#ifndef SLUICE_TESTS_MODELS_TWINS_MODEL_RUNNER_H_
#define SLUICE_TESTS_MODELS_TWINS_MODEL_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/layers/layer.h"
#include "tests/models/twins/layer_runner.h"

namespace sluice {

// One micro-batch as Dataset::Fill writes it: tokens (int32), or values of the compute type for an
// MLP.
struct MicroBatch {
  std::vector<std::byte> input;
  std::vector<int32_t> targets;
};

// `count` micro-batches of random tokens (or normal values) and targets that fit the model.
std::vector<MicroBatch> RandomMicroBatches(const ModelSpec& spec, const BatchShape& batch,
                                           DType dtype, int count, uint64_t seed);

struct StepOptions {
  Recompute recompute = Recompute::kNone;
  // Every F, then every I, then every W, in micro-batch order; else each micro-batch whole, I and W
  // of a layer together.
  bool weight_gradients_last = false;
  // Overwrite every tensor with NaN as soon as its declared life ends.
  bool poison = false;
};

struct StepResult {
  std::vector<double> losses;                           // per micro-batch: sum over its rows
  std::vector<int64_t> correct;                         // per micro-batch
  std::map<std::string, std::vector<float>> gradients;  // by parameter; tied ones still apart

  friend bool operator==(const StepResult&, const StepResult&) = default;
};

// The naive way to train: the whole model on one device, one micro-batch after the other, every
// tensor in memory of its own. What pipelines are compared with, bit for bit.
class ModelRunner {
 public:
  // Parameters are InitializeParameter's. Requires a spec and batch that MakeLayer accepts.
  ModelRunner(const ModelSpec& spec, const BatchShape& batch, DType dtype, const Kernels& kernels,
              uint64_t seed, const Adaptation& adaptation = {});

  // Forward and backward; gradients are those of the mean loss over all rows of all micro-batches.
  StepResult Step(const std::vector<MicroBatch>& micro_batches, const StepOptions& options = {});
  // Sum of the losses; nothing but forward.
  double Loss(const std::vector<MicroBatch>& micro_batches);
  // [rows, classes].
  std::vector<float> Logits(const MicroBatch& micro_batch);

  std::vector<LayerRunner>& layers() { return layers_; }
  // The parameter's values, to be read or changed; Pack() afterwards. Requires that the name
  // exists.
  absl::Span<float> parameter(const std::string& name);
  // The same for one of any type: of a split one the high halves are set.
  void SetParameter(const std::string& name, absl::Span<const float> values);
  void Pack();

 private:
  // All memory of one micro-batch.
  struct Flight {
    const MicroBatch* micro_batch;
    std::vector<std::unique_ptr<OwnBuffer>> boundaries;
    std::vector<LayerState> layers;
    double loss = 0;
    int64_t correct = 0;
  };

  // The place of the parameter's values, and its declaration.
  std::pair<OwnBuffer*, const ParameterDecl*> Find(const std::string& name);
  std::unique_ptr<Flight> MakeFlight(const MicroBatch& micro_batch);
  LayerCall Call(Flight& flight, size_t layer, float loss_scale);
  void Forward(Flight& flight, float loss_scale, const StepOptions& options);
  void BackwardInput(Flight& flight, size_t layer, float loss_scale, const StepOptions& options);
  void BackwardWeight(Flight& flight, size_t layer, float loss_scale, bool accumulate,
                      const StepOptions& options);

  ModelSpec spec_;
  BatchShape batch_;
  DType dtype_;
  std::vector<LayerRunner> layers_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_TWINS_MODEL_RUNNER_H_
