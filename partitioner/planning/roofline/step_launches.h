#ifndef SLUICE_PARTITIONER_PLANNING_ROOFLINE_STEP_LAUNCHES_H_
#define SLUICE_PARTITIONER_PLANNING_ROOFLINE_STEP_LAUNCHES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/record/kernel_launch.h"
#include "models/spec/adaptation.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "models/spec/optimizer_kind.h"

namespace sluice {

using Launches = std::vector<KernelLaunch>;

// What a GPU runs for one layer: of one micro-batch, and once per step.
struct LayerLaunches {
  std::string name;
  Launches forward;
  Launches restore;        // what selective recomputation adds to a backward pass ...
  Launches forward_again;  // ... and full recomputation
  Launches input_grad;
  // Both W are empty where the whole layer is frozen.
  Launches first_weight_grad;  // of a step's first micro-batch, whose gradients overwrite
  Launches weight_grad;        // of the others
  // Once per step, if this layer is alone: the squares of the gradients, and the optimizer.
  Launches update;
  // The same, where the device also has the layer with which this one shares weights.
  Launches update_without_tied;
  Launches sum_tied;  // once per step: the gradients of both layers that share weights are added
  Launches pack;      // once per step: the new weights are made ready

  // One micro-batch, without recomputation.
  Launches OneMicroBatch() const;
};

struct StepLaunches {
  std::vector<LayerLaunches> layers;
  Launches batch;  // of each micro-batch: the tokens and the targets arrive
  Launches end;    // once per step, with all layers on one device

  // Of a step with all layers on one device; what runs for each micro-batch is one entry for all.
  Launches Step(int micro_batches, Recompute recompute) const;
};

// What a step in bf16 trains, and on what.
struct RecordedTraining {
  BatchShape batch;
  CudaAttention attention = CudaAttention::kSluice;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  Adaptation adaptation = {};
  // Samples are packed of several documents each. How long these are is not known: attention has
  // the work of one document per sample, the most that there can be.
  bool documents = false;
};

// InvalidArgument where sluice does not train so on GPUs: with whole master weights, or with packed
// documents and cuDNN's attention.
absl::Status CheckOnGpus(const std::optional<MasterWeights>& weights, CudaAttention attention,
                         bool documents);

// Calls every layer as training does, with kernels that write down what they are asked for, and
// records what a GPU would run. Needs no GPU, no data, and no memory for tensors. Errors as
// MakeLayer.
absl::StatusOr<StepLaunches> RecordStep(const ModelSpec& spec, const RecordedTraining& training);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ROOFLINE_STEP_LAUNCHES_H_
