#include "models/layers/adapter.h"

#include <algorithm>
#include <cmath>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

constexpr size_t kAlignment = 64;

LinearShape NarrowShape(const LinearShape& of, DType weight_dtype, int64_t width, int64_t rank,
                        bool transposed, bool add_input_grad = true) {
  return {.rows = of.rows,
          .in = width,
          .out = rank,
          .dtype = of.dtype,
          .weight_dtype = weight_dtype,
          .weight_transposed = transposed,
          .bias = false,
          .add_input_grad = add_input_grad};
}

void* PackedOf(const LayerCall& call, const Linear& linear, size_t offset) {
  return linear.packed_bytes() == 0 ? nullptr : LayerBase::Packed(call, offset);
}

}  // namespace

Adapter::Adapter(LayerBase* layer, const std::string& module, const LinearShape& shape,
                 const Lora& lora)
    : kernels_(&layer->kernels()),
      shape_(shape),
      rank_(lora.rank),
      scale_(static_cast<float>(lora.scale())),
      dropout_(lora.dropout),
      stream_(XXH3_64bits(module.data(), module.size())) {
  // Kaiming's uniform values with a = sqrt(5), as PEFT has them: the bound is 1 / sqrt(in).
  a_ = layer->AddParameter({.name = AdapterA(module),
                            .shape = {rank_, shape.in},
                            .init = ParameterDecl::Init::kUniform,
                            .stddev = 1 / std::sqrt(static_cast<float>(shape.in)),
                            .decay = true,
                            .tied_to = ""});
  b_ = layer->AddParameter(
      {.name = AdapterB(module), .shape = {shape.out, rank_}, .decay = true, .tied_to = ""});
  down_ = kernels_->make_linear(
      NarrowShape(shape, layer->TypeOf(a_), shape.in, rank_, true, dropout_ == 0));
  up_ = kernels_->make_linear(NarrowShape(shape, layer->TypeOf(b_), shape.out, rank_, false));
  const Shape narrow = {shape.rows, rank_};
  u_ = layer->AddTensor("u of " + module, shape.dtype, narrow, Lifetime::kForwardToWeightGrad);
  du_ = layer->AddTensor("du of " + module, shape.dtype, narrow, Lifetime::kInputGradToWeightGrad);
  packed_a_ = layer->AddPacked(down_->packed_bytes());
  packed_b_ = layer->AddPacked(up_->packed_bytes());
}

size_t Adapter::forward_workspace() const {
  return std::max(dropped_bytes() + down_->forward_workspace(), up_->input_grad_workspace());
}

size_t Adapter::input_grad_workspace() const {
  return std::max(up_->forward_workspace(), dropped_bytes() + down_->input_grad_workspace());
}

size_t Adapter::weight_grad_workspace() const {
  return std::max(dropped_bytes() + down_->weight_grad_workspace(), up_->weight_grad_workspace());
}

size_t Adapter::dropped_bytes() const {
  if (dropout_ == 0) return 0;
  const auto bytes = static_cast<size_t>(shape_.rows * shape_.in * SizeOf(shape_.dtype));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void* Adapter::Behind(void* workspace) const {
  return dropout_ == 0 ? workspace : static_cast<std::byte*>(workspace) + dropped_bytes();
}

DropoutMask Adapter::MaskOf(const LayerCall& call) const {
  if (call.first_row < 0) return {};  // which keeps everything as it is
  return {.seed = call.seed,
          .stream = stream_,
          .first = static_cast<uint64_t>(call.first_row) * static_cast<uint64_t>(shape_.in),
          .threshold = static_cast<uint32_t>(dropout_ * 0x1p32),
          .scale = static_cast<float>(1 / (1 - dropout_))};
}

const void* Adapter::Dropped(const LayerCall& call, const void* x, void* workspace) const {
  if (dropout_ == 0 || call.first_row < 0) return x;
  kernels_->dropout(call.stream, shape_.dtype, shape_.rows * shape_.in, MaskOf(call), x, nullptr,
                    workspace);
  return workspace;
}

// Also where there is nothing to pack: products are prepared by it.
void Adapter::Pack(const LayerCall& call) const {
  down_->Pack(call.stream, LayerBase::Parameter(call, a_), nullptr,
              PackedOf(call, *down_, packed_a_));
  up_->Pack(call.stream, LayerBase::Parameter(call, b_), nullptr, PackedOf(call, *up_, packed_b_));
}

void Adapter::Scale(const LayerCall& call, void* narrow) const {
  kernels_->scale(call.stream, shape_.dtype, shape_.rows * rank_, scale_, narrow);
}

void Adapter::Narrow(const LayerCall& call, const void* x, void* workspace) const {
  void* const u = LayerBase::Tensor(call, u_);
  down_->Forward(call.stream, Dropped(call, x, workspace), LayerBase::Parameter(call, a_),
                 PackedOf(call, *down_, packed_a_), nullptr, nullptr, u, nullptr,
                 Behind(workspace));
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
                       PackedOf(call, *down_, packed_a_), nullptr, dropout_ == 0 ? dx : workspace,
                       Behind(workspace));
  if (dropout_ != 0) {
    kernels_->dropout(call.stream, shape_.dtype, shape_.rows * shape_.in, MaskOf(call), workspace,
                      dx, dx);
  }
  if (shape_.input_activation == Activation::kNone) return;
  kernels_->activation_backward(call.stream, shape_.dtype, shape_.input_activation,
                                shape_.rows * shape_.in, input_before_activation, dx, dx);
}

void Adapter::BackwardWeight(const LayerCall& call, const void* x, const void* dy,
                             void* workspace) const {
  down_->BackwardWeight(call.stream, Dropped(call, x, workspace), LayerBase::Tensor(call, du_),
                        LayerBase::Gradient(call, a_), call.accumulate, Behind(workspace));
  up_->BackwardWeight(call.stream, dy, LayerBase::Tensor(call, u_), LayerBase::Gradient(call, b_),
                      call.accumulate, workspace);
}

}  // namespace sluice
