#include "models/layers/projections.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {

Projections::Projections(LinearLayer* layer, const DecoderConfig& config, const BlockNames& names)
    : q_width_(config.heads * config.head_width()),
      kv_width_(config.key_value_heads() * config.head_width()),
      element_(SizeOf(layer->dtype())),
      count_(names.fused_map.empty() ? kMost : 1) {
  if (fused()) {
    AddFused(layer, config, names);
  } else {
    AddSeparate(layer, config, names);
  }
}

void Projections::AddFused(LinearLayer* layer, const DecoderConfig& config,
                           const BlockNames& names) {
  maps_[0] =
      layer->AddLinear(config.dim, q_stride(),
                       MapParameters(names.fused_map, config.qkv_bias, config.initializer_range));
  const Shape shape = {layer->rows(), q_stride()};
  values_[0] = layer->AddTensor("qkv", layer->dtype(), shape, Lifetime::kForwardToInputGrad);
  gradients_[0] = layer->AddTensor("dqkv", layer->dtype(), shape, Lifetime::kInputGradToWeightGrad);
}

void Projections::AddSeparate(LinearLayer* layer, const DecoderConfig& config,
                              const BlockNames& names) {
  const std::array<const char*, kMost> tensors = {"q", "k", "v"};
  const std::array<const std::string*, kMost> maps = {&names.query_map, &names.key_map,
                                                      &names.value_map};
  const std::array<int64_t, kMost> widths = {q_width_, kv_width_, kv_width_};
  for (size_t i = 0; i < kMost; ++i) {
    maps_[i] = layer->AddLinear(config.dim, widths[i],
                                MapParameters(*maps[i], config.qkv_bias, config.initializer_range),
                                {.weight_transposed = true, .add_input_grad = i > 0});
    const Shape shape = {layer->rows(), widths[i]};
    values_[i] = layer->AddTensor(tensors[i], layer->dtype(), shape, Lifetime::kForwardToInputGrad);
    gradients_[i] = layer->AddTensor(absl::StrCat("d", tensors[i]), layer->dtype(), shape,
                                     Lifetime::kInputGradToWeightGrad);
  }
}

Projections::Heads Projections::At(const LayerCall& call, const Tensors& tensors) const {
  if (!fused()) {
    return {LayerBase::Tensor(call, tensors[0]), LayerBase::Tensor(call, tensors[1]),
            LayerBase::Tensor(call, tensors[2])};
  }
  auto* const q = static_cast<std::byte*>(LayerBase::Tensor(call, tensors[0]));
  std::byte* const k = q + q_width_ * element_;
  return {q, k, k + kv_width_ * element_};
}

size_t Projections::forward_workspace() const {
  size_t bytes = 0;
  for (int i = 0; i < count_; ++i) bytes = std::max(bytes, maps_[i]->kernel().forward_workspace());
  return bytes;
}

size_t Projections::input_grad_workspace() const {
  size_t bytes = 0;
  for (int i = 0; i < count_; ++i) {
    bytes = std::max(bytes, maps_[i]->kernel().input_grad_workspace());
  }
  return bytes;
}

size_t Projections::weight_grad_workspace() const {
  size_t bytes = 0;
  for (int i = 0; i < count_; ++i) {
    bytes = std::max(bytes, maps_[i]->kernel().weight_grad_workspace());
  }
  return bytes;
}

void Projections::Forward(const LayerCall& call, const void* input, void* workspace) const {
  for (int i = 0; i < count_; ++i) {
    maps_[i]->Forward(call, input, nullptr, LayerBase::Tensor(call, values_[i]), nullptr,
                      workspace);
  }
}

void Projections::BackwardInput(const LayerCall& call, void* input_grad, void* workspace) const {
  for (int i = 0; i < count_; ++i) {
    maps_[i]->BackwardInput(call, LayerBase::Tensor(call, gradients_[i]), nullptr, input_grad,
                            workspace);
  }
}

void Projections::BackwardWeight(const LayerCall& call, const void* input, void* workspace) const {
  for (int i = 0; i < count_; ++i) {
    maps_[i]->BackwardWeight(call, input, LayerBase::Tensor(call, gradients_[i]), workspace);
  }
}

}  // namespace sluice
