#include "models/layers/norm.h"

namespace sluice {

void Norm::Forward(const LayerCall& call, const void* x, void* y) const {
  kernels_->layer_norm_forward(call.stream, shape_.dtype, shape_.rows, shape_.dim, shape_.epsilon,
                               x, call.parameters[slots_.gamma], call.parameters[slots_.beta], y,
                               static_cast<float*>(call.tensors[slots_.mean]),
                               static_cast<float*>(call.tensors[slots_.rstd]));
}

size_t Norm::backward_workspace() const {
  return kernels_->layer_norm_backward_workspace(shape_.rows, shape_.dim);
}

void Norm::Backward(const LayerCall& call, const void* dy, const void* x, const void* residual_grad,
                    void* dx, void* workspace) const {
  kernels_->layer_norm_backward(call.stream, shape_.dtype, shape_.rows, shape_.dim, dy, x,
                                call.parameters[slots_.gamma],
                                static_cast<const float*>(call.tensors[slots_.mean]),
                                static_cast<const float*>(call.tensors[slots_.rstd]), residual_grad,
                                dx, static_cast<float*>(call.tensors[slots_.partial]), workspace);
}

void Norm::AddWeightGradients(const LayerCall& call) const {
  const auto* partial = static_cast<const float*>(call.tensors[slots_.partial]);
  kernels_->accumulate(call.stream, shape_.dim, partial, call.gradients[slots_.gamma],
                       call.accumulate);
  kernels_->accumulate(call.stream, shape_.dim, partial + shape_.dim, call.gradients[slots_.beta],
                       call.accumulate);
}

Norm NormedLayer::AddNorm(const std::string& name, const std::string& parameters) {
  Norm::Slots slots;
  slots.gamma = AddParameter({.name = parameters + ".weight",
                              .shape = {dim_},
                              .init = ParameterDecl::Init::kOnes,
                              .tied_to = ""});
  slots.beta = AddParameter({.name = parameters + ".bias", .shape = {dim_}, .tied_to = ""});
  slots.mean = AddTensor("mean" + name, DType::kFloat32, {rows()}, Lifetime::kForwardToInputGrad);
  slots.rstd = AddTensor("rstd" + name, DType::kFloat32, {rows()}, Lifetime::kForwardToInputGrad);
  slots.partial = AddTensor("norm_partial" + name, DType::kFloat32, {2, dim_},
                            Lifetime::kInputGradToWeightGrad);
  return {kernels(), {rows(), dim_, dtype(), epsilon_}, slots};
}

}  // namespace sluice
