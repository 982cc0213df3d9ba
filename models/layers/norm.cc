#include "models/layers/norm.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"

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

void NormedLayer::AddNormGradients(const LayerCall& call) const {
  absl::InlinedVector<AddedTensor, 8> sums;
  for (const PartialRow& from : partial_rows_) {
    sums.push_back({.n = from.width,
                    .values = FloatTensor(call, from.tensor) + from.row * from.width,
                    .sums = Gradient(call, from.parameter)});
  }
  kernels().accumulate(call.stream, sums, call.accumulate);
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
  const std::vector<int> parameters_of_rows =
      centered ? std::vector<int>{slots.gamma, slots.beta} : std::vector<int>{slots.gamma};
  const auto rows_of_partial = static_cast<int64_t>(parameters_of_rows.size());
  const auto trained = [this](int parameter) { return !IsFrozen(parameter); };
  if (std::any_of(parameters_of_rows.begin(), parameters_of_rows.end(), trained)) {
    slots.partial = AddTensor("norm_partial" + name, DType::kFloat32, {rows_of_partial, width},
                              Lifetime::kInputGradToWeightGrad);
  }
  for (int64_t row = 0; row < rows_of_partial; ++row) {
    const int parameter = parameters_of_rows[static_cast<size_t>(row)];
    if (trained(parameter)) partial_rows_.push_back({slots.partial, row, width, parameter});
  }
  return {kernels(), {norm_rows, width, dtype(), epsilon_, kind_, gain_offset_}, slots};
}

}  // namespace sluice
