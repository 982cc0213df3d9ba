#include "models/layers/projections.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {

HeadLayout HeadLayoutOf(const DecoderConfig& config) {
  HeadLayout layout = {.fused = HasGpt2Parameters(config),
                       .q_width = config.heads * config.head_width(),
                       .kv_width = config.key_value_heads() * config.head_width()};
  const int64_t all = layout.q_width + 2 * layout.kv_width;
  layout.q_stride = layout.fused ? all : layout.q_width;
  layout.kv_stride = layout.fused ? all : layout.kv_width;
  return layout;
}

Projections::Projections(LinearLayer* layer, const DecoderConfig& config, const BlockNames& names)
    : layout_(HeadLayoutOf(config)),
      element_(SizeOf(layer->dtype())),
      count_(layout_.fused ? 1 : kMost) {
  if (layout_.fused) {
    AddFused(layer, config, names);
  } else {
    AddSeparate(layer, config, names);
  }
}

void Projections::AddFused(LinearLayer* layer, const DecoderConfig& config,
                           const BlockNames& names) {
  maps_[0] =
      layer->AddLinear(config.dim, layout_.q_stride,
                       MapParameters(names.fused_map, config.qkv_bias, config.initializer_range));
  const Shape shape = {layer->rows(), layout_.q_stride};
  values_[0] = layer->AddTensor("qkv", layer->dtype(), shape, Lifetime::kForwardToInputGrad);
  gradients_[0] = layer->AddTensor("dqkv", layer->dtype(), shape, maps_[0]->output_grad_life());
}

void Projections::AddSeparate(LinearLayer* layer, const DecoderConfig& config,
                              const BlockNames& names) {
  const std::array<const char*, kMost> tensors = {"q", "k", "v"};
  const std::array<const std::string*, kMost> maps = {&names.query_map, &names.key_map,
                                                      &names.value_map};
  const std::array<int64_t, kMost> widths = {layout_.q_width, layout_.kv_width, layout_.kv_width};
  for (size_t i = 0; i < kMost; ++i) {
    maps_[i] = layer->AddLinear(config.dim, widths[i],
                                MapParameters(*maps[i], config.qkv_bias, config.initializer_range),
                                {.weight_transposed = true, .add_input_grad = i > 0});
    const Shape shape = {layer->rows(), widths[i]};
    values_[i] = layer->AddTensor(tensors[i], layer->dtype(), shape, Lifetime::kForwardToInputGrad);
    gradients_[i] = layer->AddTensor(absl::StrCat("d", tensors[i]), layer->dtype(), shape,
                                     maps_[i]->output_grad_life());
  }
}

bool Projections::weight_grad_reads_input() const {
  return std::any_of(maps_.begin(), maps_.begin() + count_,
                     [](const LinearLayer::Map* map) { return map->weight_grad_reads_input(); });
}

Projections::Heads Projections::At(const LayerCall& call, const Tensors& tensors) const {
  if (!layout_.fused) {
    return {LayerBase::Tensor(call, tensors[0]), LayerBase::Tensor(call, tensors[1]),
            LayerBase::Tensor(call, tensors[2])};
  }
  auto* const q = static_cast<std::byte*>(LayerBase::Tensor(call, tensors[0]));
  std::byte* const k = q + layout_.q_width * element_;
  return {q, k, k + layout_.kv_width * element_};
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

void Projections::BackwardWeight(const LayerCall& call, const void* input,
                                 LinearLayer::WeightPass* pass) const {
  for (int i = 0; i < count_; ++i) {
    maps_[i]->BackwardWeight(call, input, LayerBase::Tensor(call, gradients_[i]), pass);
  }
}

}  // namespace sluice
