#include "models/layers/adapter.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

LinearShape NarrowShape(const LinearShape& of, int64_t width, int64_t rank, bool transposed) {
  return {.rows = of.rows,
          .in = width,
          .out = rank,
          .dtype = of.dtype,
          .weight_transposed = transposed,
          .bias = false,
          .add_input_grad = true};
}

const void* PackedOf(const LayerCall& call, const Linear& linear, size_t offset) {
  return linear.packed_bytes() == 0 ? nullptr : LayerBase::Packed(call, offset);
}

}  // namespace

Adapter::Adapter(LayerBase* layer, const std::string& module, const LinearShape& shape,
                 const Lora& lora)
    : kernels_(&layer->kernels()),
      shape_(shape),
      rank_(lora.rank),
      scale_(static_cast<float>(lora.scale())),
      down_(kernels_->make_linear(NarrowShape(shape, shape.in, rank_, true))),
      up_(kernels_->make_linear(NarrowShape(shape, shape.out, rank_, false))) {
  // Kaiming's uniform values with a = sqrt(5), as PEFT has them: the bound is 1 / sqrt(in).
  a_ = layer->AddParameter({.name = AdapterA(module),
                            .shape = {rank_, shape.in},
                            .init = ParameterDecl::Init::kUniform,
                            .stddev = 1 / std::sqrt(static_cast<float>(shape.in)),
                            .decay = true,
                            .tied_to = ""});
  b_ = layer->AddParameter(
      {.name = AdapterB(module), .shape = {shape.out, rank_}, .decay = true, .tied_to = ""});
  const Shape narrow = {shape.rows, rank_};
  u_ = layer->AddTensor("u of " + module, shape.dtype, narrow, Lifetime::kForwardToWeightGrad);
  du_ = layer->AddTensor("du of " + module, shape.dtype, narrow, Lifetime::kInputGradToWeightGrad);
  packed_a_ = layer->AddPacked(down_->packed_bytes());
  packed_b_ = layer->AddPacked(up_->packed_bytes());
}

size_t Adapter::forward_workspace() const {
  return std::max(down_->forward_workspace(), up_->input_grad_workspace());
}

size_t Adapter::input_grad_workspace() const {
  return std::max(up_->forward_workspace(), down_->input_grad_workspace());
}

size_t Adapter::weight_grad_workspace() const {
  return std::max(down_->weight_grad_workspace(), up_->weight_grad_workspace());
}

void Adapter::Pack(const LayerCall& call) const {
  if (down_->packed_bytes() != 0) {
    down_->Pack(call.stream, LayerBase::Parameter(call, a_), LayerBase::Packed(call, packed_a_));
  }
  if (up_->packed_bytes() != 0) {
    up_->Pack(call.stream, LayerBase::Parameter(call, b_), LayerBase::Packed(call, packed_b_));
  }
}

void Adapter::Scale(const LayerCall& call, void* narrow) const {
  kernels_->scale(call.stream, shape_.dtype, shape_.rows * rank_, scale_, narrow);
}

void Adapter::Narrow(const LayerCall& call, const void* x, void* workspace) const {
  void* const u = LayerBase::Tensor(call, u_);
  down_->Forward(call.stream, x, LayerBase::Parameter(call, a_), PackedOf(call, *down_, packed_a_),
                 nullptr, nullptr, u, nullptr, workspace);
  Scale(call, u);
}

void Adapter::Forward(const LayerCall& call, const void* x, void* y, void* activated,
                      void* workspace) const {
  Narrow(call, x, workspace);
  up_->BackwardInput(call.stream, LayerBase::Tensor(call, u_), LayerBase::Parameter(call, b_),
                     PackedOf(call, *up_, packed_b_), nullptr, y, workspace);
  if (shape_.activation == Activation::kNone) return;
  kernels_->activation_forward(call.stream, shape_.dtype, shape_.activation,
                               shape_.rows * shape_.out, y, activated);
}

void Adapter::BackwardInput(const LayerCall& call, const void* dy,
                            const void* input_before_activation, void* dx, void* workspace) const {
  void* const du = LayerBase::Tensor(call, du_);
  up_->Forward(call.stream, dy, LayerBase::Parameter(call, b_), PackedOf(call, *up_, packed_b_),
               nullptr, nullptr, du, nullptr, workspace);
  Scale(call, du);
  down_->BackwardInput(call.stream, du, LayerBase::Parameter(call, a_),
                       PackedOf(call, *down_, packed_a_), nullptr, dx, workspace);
  if (shape_.input_activation == Activation::kNone) return;
  kernels_->activation_backward(call.stream, shape_.dtype, shape_.input_activation,
                                shape_.rows * shape_.in, input_before_activation, dx, dx);
}

void Adapter::BackwardWeight(const LayerCall& call, const void* x, const void* dy,
                             void* workspace) const {
  down_->BackwardWeight(call.stream, x, LayerBase::Tensor(call, du_), LayerBase::Gradient(call, a_),
                        nullptr, call.accumulate, workspace);
  up_->BackwardWeight(call.stream, dy, LayerBase::Tensor(call, u_), LayerBase::Gradient(call, b_),
                      nullptr, call.accumulate, workspace);
}

}  // namespace sluice
