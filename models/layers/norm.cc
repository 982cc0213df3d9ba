#include "models/layers/norm.h"

namespace sluice {

void Norm::Forward(const LayerCall& call, const void* x, void* y, const void* residual) const {
  const float* const gamma = LayerBase::FloatParameter(call, slots_.gamma);
  auto* const rstd = static_cast<float*>(call.tensors[slots_.rstd]);
  if (shape_.kind == NormKind::kRms) {
    kernels_->rms_norm_forward(call.stream, shape_.dtype, shape_.rows, shape_.dim, shape_.epsilon,
                               shape_.gain_offset, x, gamma, residual, y, rstd);
    return;
  }
  kernels_->layer_norm_forward(call.stream, shape_.dtype, shape_.rows, shape_.dim, shape_.epsilon,
                               x, gamma, LayerBase::FloatParameter(call, slots_.beta), y,
                               static_cast<float*>(call.tensors[slots_.mean]), rstd);
}

size_t Norm::backward_workspace() const {
  return shape_.kind == NormKind::kRms
             ? kernels_->rms_norm_backward_workspace(shape_.rows, shape_.dim)
             : kernels_->layer_norm_backward_workspace(shape_.rows, shape_.dim);
}

void Norm::Backward(const LayerCall& call, const void* dy, const void* x, const void* residual_grad,
                    void* dx, void* workspace) const {
  const float* const gamma = LayerBase::FloatParameter(call, slots_.gamma);
  const auto* const rstd = static_cast<const float*>(call.tensors[slots_.rstd]);
  float* const partial = Partial(call);
  if (shape_.kind == NormKind::kRms) {
    kernels_->rms_norm_backward(call.stream, shape_.dtype, shape_.rows, shape_.dim,
                                shape_.gain_offset, dy, x, gamma, rstd, residual_grad, dx, partial,
                                workspace);
    return;
  }
  kernels_->layer_norm_backward(call.stream, shape_.dtype, shape_.rows, shape_.dim, dy, x, gamma,
                                static_cast<const float*>(call.tensors[slots_.mean]), rstd,
                                residual_grad, dx, partial, workspace);
}

void Norm::ForwardTurned(const LayerCall& call, const Turn& turn, const void* x, void* y) const {
  kernels_->rms_norm_rope_forward(call.stream, turn.shape, shape_.epsilon, shape_.gain_offset, x,
                                  LayerBase::FloatParameter(call, slots_.gamma), turn.table,
                                  call.starts, y, LayerBase::FloatTensor(call, slots_.rstd));
}

void Norm::BackwardTurned(const LayerCall& call, const Turn& turn, void* dy, const void* x,
                          void* dx, void* workspace) const {
  kernels_->rms_norm_rope_backward(call.stream, turn.shape, shape_.gain_offset, dy, x,
                                   LayerBase::FloatParameter(call, slots_.gamma),
                                   LayerBase::FloatTensor(call, slots_.rstd), turn.table,
                                   call.starts, dx, Partial(call), workspace);
}

float* Norm::Partial(const LayerCall& call) const {
  return LayerBase::FloatTensor(call, slots_.partial);
}

void Norm::AddWeightGradients(const LayerCall& call) const {
  if (slots_.partial < 0) return;
  const auto* partial = static_cast<const float*>(call.tensors[slots_.partial]);
  const auto add = [&](int64_t first, float* gradient) {
    if (gradient == nullptr) return;  // frozen
    kernels_->accumulate(call.stream, shape_.dim, partial + first, gradient, call.accumulate);
  };
  add(0, call.gradients[slots_.gamma]);
  if (shape_.kind != NormKind::kRms) add(shape_.dim, call.gradients[slots_.beta]);
}

Norm NormedLayer::AddNorm(const std::string& name, const std::string& parameters, int64_t norm_rows,
                          int64_t width) {
  const bool centered = kind_ == NormKind::kLayer;
  const auto add_statistic = [&](const char* statistic) {
    return AddTensor(statistic + name, DType::kFloat32, {norm_rows}, Lifetime::kForwardToInputGrad);
  };
  // The gain starts as 1, of which an offset is a part.
  Norm::Slots slots;
  slots.gamma = AddParameter(
      {.name = parameters + ".weight",
       .shape = {width},
       .init = gain_offset_ == 0 ? ParameterDecl::Init::kOnes : ParameterDecl::Init::kZeros,
       .tied_to = ""});
  if (centered) {
    slots.beta = AddParameter({.name = parameters + ".bias", .shape = {width}, .tied_to = ""});
    slots.mean = add_statistic("mean");
  }
  slots.rstd = add_statistic("rstd");
  const bool frozen = IsFrozen(slots.gamma) && (!centered || IsFrozen(slots.beta));
  if (!frozen) {
    slots.partial = AddTensor("norm_partial" + name, DType::kFloat32, {centered ? 2 : 1, width},
                              Lifetime::kInputGradToWeightGrad);
  }
  return {kernels(), {norm_rows, width, dtype(), epsilon_, kind_, gain_offset_}, slots};
}

}  // namespace sluice
