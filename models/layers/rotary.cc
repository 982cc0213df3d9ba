#include "models/layers/rotary.h"

#include <algorithm>

namespace sluice {

Rotary::Rotary(LayerBase* layer, const Rope& rope, int64_t width, int64_t max_seq)
    : layer_(layer),
      width_(width),
      inverse_frequencies_(InverseFrequencies(rope, width, max_seq)),
      magnitude_(RopeMagnitude(rope)),
      positions_(std::max(layer->batch().seq, layer->cached_positions())),
      table_offset_(
          layer->AddPacked(static_cast<size_t>(positions_ * width * SizeOf(DType::kFloat32)))) {}

const float* Rotary::Table(const LayerCall& call) const {
  return static_cast<const float*>(LayerBase::Packed(call, table_offset_));
}

RopeShape Rotary::ShapeOf(int64_t heads, int64_t stride) const {
  return {.rows = layer_->rows(),
          .seq = layer_->batch().seq,
          .heads = heads,
          .width = width_,
          .stride = stride,
          .dtype = layer_->dtype()};
}

void Rotary::Pack(const LayerCall& call) const {
  layer_->kernels().rope_table(call.stream, positions_,
                               static_cast<int64_t>(inverse_frequencies_.size()),
                               inverse_frequencies_.data(), magnitude_,
                               static_cast<float*>(LayerBase::Packed(call, table_offset_)));
}

void Rotary::Turn(const LayerCall& call, int64_t heads, int64_t stride, void* x) const {
  Apply(call, heads, stride, /*inverse=*/false, x);
}

void Rotary::TurnBack(const LayerCall& call, int64_t heads, int64_t stride, void* x) const {
  Apply(call, heads, stride, /*inverse=*/true, x);
}

void Rotary::Apply(const LayerCall& call, int64_t heads, int64_t stride, bool inverse,
                   void* x) const {
  layer_->kernels().rope(call.stream, ShapeOf(heads, stride), Table(call), call.starts, inverse, x);
}

}  // namespace sluice
