#include "partitioner/planning/sources/layer_memory.h"

#include <algorithm>
#include <memory>

#include "models/kernels/kernel_threads.h"
#include "models/layers/layer.h"
#include "models/spec/costs/describe_layers.h"

namespace sluice {
namespace {

int64_t SumOf(const LayerDecl& decl, std::initializer_list<Lifetime> lifetimes) {
  int64_t bytes = 0;
  for (const TensorDecl& tensor : decl.tensors) {
    if (std::find(lifetimes.begin(), lifetimes.end(), tensor.lifetime) != lifetimes.end()) {
      bytes += tensor.bytes();
    }
  }
  return bytes;
}

int64_t RestorableBytes(const LayerDecl& decl) {
  int64_t bytes = 0;
  for (const TensorDecl& tensor : decl.tensors) {
    if (tensor.restorable) bytes += tensor.bytes();
  }
  return bytes;
}

int64_t BoundaryBytes(const Shape& shape, DType dtype) {
  return shape.empty() ? 0 : ElementCount(shape) * SizeOf(dtype);
}

int64_t SplitElements(const ParameterDecl& parameter) {
  return parameter.is_split() ? ElementCount(parameter.shape) : 0;
}

// The optimizer's.
int64_t StateBytes(const ParameterDecl& parameter, OptimizerKind optimizer) {
  const int64_t moments = optimizer == OptimizerKind::kAdamW ? 2 : 1;
  return SizeOf(DType::kFloat32) * moments * TrainedElements(parameter) +
         parameter.low_half_bytes();
}

void SetParameterBytes(const LayerDecl& decl, OptimizerKind optimizer, LayerCost* cost) {
  cost->parameter_bytes = static_cast<int64_t>(decl.packed_bytes);
  for (const ParameterDecl& parameter : decl.parameters) {
    const int64_t state = StateBytes(parameter, optimizer);
    const int64_t gradients = SizeOf(DType::kFloat32) * TrainedElements(parameter);
    cost->parameter_bytes += parameter.stored_bytes() + state + gradients;
    if (parameter.tied_to.empty()) continue;
    cost->tied_bytes += parameter.stored_bytes() + state;
    cost->tied_state_bytes += state;
    cost->tied_gradient_bytes += gradients;
  }
}

// What F needs, and the larger of F and I, while everything saved is there.
void SetWorkspaceBytes(const LayerDecl& decl, int64_t input, int64_t output, LayerCost* cost) {
  const int64_t forward = SumOf(decl, {Lifetime::kForwardScratch}) + output;
  const int64_t input_grad =
      SumOf(decl, {Lifetime::kInputGradScratch, Lifetime::kInputGradToWeightGrad}) + output +
      (decl.has_input_grad ? input : 0);
  cost->forward_workspace_bytes = forward;
  cost->workspace_bytes = std::max(forward, input_grad);
}

int64_t TrainedParameters(const LayerDecl& decl) {
  int64_t elements = 0;
  for (const ParameterDecl& parameter : decl.parameters) {
    if (parameter.tied_to.empty()) elements += TrainedElements(parameter);
  }
  return elements;
}

int64_t SplitParameters(const LayerDecl& decl) {
  int64_t elements = 0;
  for (const ParameterDecl& parameter : decl.parameters) {
    if (parameter.tied_to.empty()) elements += SplitElements(parameter);
  }
  return elements;
}

LayerCost CostOf(const LayerDecl& decl, const LayerSpec& spec, OptimizerKind optimizer,
                 bool adapted) {
  const int64_t input = BoundaryBytes(decl.input_shape, decl.input_dtype);
  const int64_t output = BoundaryBytes(decl.output_shape, decl.output_dtype);
  const int64_t kept = SumOf(decl, {Lifetime::kForwardToInputGrad, Lifetime::kForwardToWeightGrad});
  const int64_t held_input = decl.input_use == LastUse::kForward ? 0 : input;
  LayerCost cost;
  cost.name = decl.name;
  // Of a tied pair the model has one; adapters and what is frozen only the declaration knows.
  cost.parameters = adapted ? TrainedParameters(decl) : spec.parameters;
  cost.split_parameters = SplitParameters(decl);
  SetParameterBytes(decl, optimizer, &cost);
  cost.saved_bytes = {held_input + kept, held_input + kept - RestorableBytes(decl), input};
  cost.weight_grad_bytes =
      SumOf(decl, {Lifetime::kForwardToWeightGrad, Lifetime::kInputGradToWeightGrad}) +
      (decl.input_use == LastUse::kWeightGrad ? input : 0) +
      (decl.output_grad_use == LastUse::kWeightGrad ? output : 0);
  cost.output_bytes = output;
  SetWorkspaceBytes(decl, input, output, &cost);
  return cost;
}

bool SameShape(const LayerSpec& a, const LayerSpec& b) {
  return a.parameters == b.parameters && a.forward_flops == b.forward_flops &&
         a.input_grad_flops == b.input_grad_flops && a.output_elements == b.output_elements;
}

}  // namespace

absl::StatusOr<std::vector<LayerCost>> DeclaredCosts(const ModelSpec& spec, const BatchShape& batch,
                                                     DType dtype, OptimizerKind optimizer,
                                                     const Kernels& kernels,
                                                     const Adaptation& adaptation) {
  const std::vector<LayerSpec> specs = DescribeLayers(spec, batch);
  const KernelThreads one_core(1);  // work areas depend on it
  std::vector<LayerCost> costs;
  for (size_t i = 0; i < specs.size(); ++i) {
    // A transformer's blocks are alike, and making one prepares its kernels; only --freeze treats
    // them differently.
    if (i > 1 && adaptation.freeze.empty() && SameShape(specs[i], specs[i - 1])) {
      costs.push_back(costs.back());
      costs.back().name = specs[i].name;
      continue;
    }
    absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeLayer(spec, static_cast<int>(i), batch, dtype, kernels, adaptation);
    if (!layer.ok()) return layer.status();
    const bool adapted = !(adaptation == Adaptation());
    costs.push_back(CostOf((*layer)->decl(), specs[i], optimizer, adapted));
  }
  return costs;
}

}  // namespace sluice
