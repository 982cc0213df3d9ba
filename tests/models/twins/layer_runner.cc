#include "tests/models/twins/layer_runner.h"

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "tests/models/twins/reference_kernels.h"

namespace sluice {
namespace {

constexpr std::align_val_t kAlignment{64};

// The moment at whose end nobody reads the tensor any more.
Moment LastMoment(Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::kForwardScratch:
      return Moment::kForward;
    case Lifetime::kForwardToInputGrad:
    case Lifetime::kInputGradScratch:
      return Moment::kInputGrad;
    case Lifetime::kForwardToWeightGrad:
    case Lifetime::kInputGradToWeightGrad:
    case Lifetime::kWeightGradScratch:
      return Moment::kWeightGrad;
  }
  return Moment::kWeightGrad;
}

Moment LastMoment(LastUse use) {
  return use == LastUse::kForward     ? Moment::kForward
         : use == LastUse::kInputGrad ? Moment::kInputGrad
                                      : Moment::kWeightGrad;
}

bool FromForward(Lifetime lifetime) {
  return lifetime == Lifetime::kForwardToInputGrad || lifetime == Lifetime::kForwardToWeightGrad;
}

}  // namespace

OwnBuffer::OwnBuffer(int64_t bytes)
    : data_(operator new(static_cast<size_t>(bytes), kAlignment)), bytes_(bytes) {
  Poison();
}

void OwnBuffer::Poison() { reference::Poison(data(), static_cast<size_t>(bytes_)); }

void OwnBuffer::Delete::operator()(void* data) const { operator delete(data, kAlignment); }

LayerState::LayerState(const LayerDecl& layer_decl) : decl(&layer_decl) {
  for (const TensorDecl& tensor : layer_decl.tensors) {
    tensors.emplace_back(tensor.bytes());
    pointers.push_back(tensors.back().data());
  }
}

void LayerState::Expire(Moment moment) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Lifetime lifetime = decl->tensors[i].lifetime;
    const bool forward_scratch =
        moment == Moment::kRestore && lifetime == Lifetime::kForwardScratch;
    if (LastMoment(lifetime) == moment || forward_scratch) tensors[i].Poison();
  }
  if (input != nullptr && LastMoment(decl->input_use) == moment) input->Poison();
  if (output_grad != nullptr && LastMoment(decl->output_grad_use) == moment) output_grad->Poison();
}

void LayerState::Drop(Recompute recompute) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorDecl& tensor = decl->tensors[i];
    const bool all = recompute == Recompute::kFull && FromForward(tensor.lifetime);
    const bool cheap = recompute == Recompute::kSelective && tensor.restorable;
    if (all || cheap) tensors[i].Poison();
  }
}

LayerRunner::LayerRunner(std::unique_ptr<Layer> layer, const Init& init)
    : layer_(std::move(layer)), packed_(static_cast<int64_t>(decl().packed_bytes)) {
  for (const ParameterDecl& parameter : decl().parameters) {
    parameters_.emplace_back(parameter.stored_bytes());
    gradients_.emplace_back(ElementCount(parameter.shape) * SizeOf(DType::kFloat32));
    parameter_pointers_.push_back(parameters_.back().data());
    gradient_pointers_.push_back(parameter.frozen ? nullptr : gradients_.back().floats());
    init(parameter, parameter_pointers_.back());
    const int64_t padding = parameter.stored_bytes() - parameter.bytes();
    std::memset(static_cast<std::byte*>(parameters_.back().data()) + parameter.bytes(), 0,
                static_cast<size_t>(padding));
  }
  Pack();
}

void LayerRunner::Pack() {
  LayerCall call;
  call.parameters = parameter_pointers_;
  call.packed = packed_.data();
  layer_->Pack(call);
}

LayerCall LayerRunner::Call(LayerState& state) {
  const auto data = [](OwnBuffer* buffer) { return buffer ? buffer->data() : nullptr; };
  LayerCall call;
  call.seed = 9;
  call.first_row = 21;
  call.input = data(state.input);
  call.output = data(state.output);
  call.output_grad = data(state.output_grad);
  call.input_grad = data(state.input_grad);
  call.tensors = state.pointers;
  call.parameters = parameter_pointers_;
  call.gradients = gradient_pointers_;
  call.packed = packed_.data();
  return call;
}

}  // namespace sluice
