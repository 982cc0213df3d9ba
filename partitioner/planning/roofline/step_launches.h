#ifndef SLUICE_PARTITIONER_PLANNING_ROOFLINE_STEP_LAUNCHES_H_
#define SLUICE_PARTITIONER_PLANNING_ROOFLINE_STEP_LAUNCHES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/record/kernel_launch.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"

namespace sluice {

using Launches = std::vector<KernelLaunch>;

// What a GPU runs for one layer: of one micro-batch, and once per step.
struct LayerLaunches {
  std::string name;
  Launches forward;
  Launches restore;        // what selective recomputation adds to a backward pass ...
  Launches forward_again;  // ... and full recomputation
  Launches input_grad;
  Launches first_weight_grad;  // of a step's first micro-batch, whose gradients overwrite
  Launches weight_grad;        // of the others
  Launches update;  // once per step, if this layer is alone: the squares of the gradients, AdamW
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

// Calls every layer as training does, with kernels that write down what they are asked for, and
// records what a GPU would run. Needs no GPU, no data, and no memory for tensors; documents are not
// packed. In bf16. Errors as MakeLayer.
absl::StatusOr<StepLaunches> RecordStep(const ModelSpec& spec, const BatchShape& batch,
                                        CudaAttention attention = CudaAttention::kSluice);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ROOFLINE_STEP_LAUNCHES_H_
