#ifndef SLUICE_MODELS_LAYERS_ROTARY_H_
#define SLUICE_MODELS_LAYERS_ROTARY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/layers/layer_base.h"
#include "models/spec/rope.h"

namespace sluice {

// Rotary positions inside a layer (Su et al. 2021): the cosines and sines of every position of a
// sequence lie in the layer's packed memory, and heads are turned by them where they lie.
class Rotary {
 public:
  // Heads of `width` values, an even number, in a model whose sequences have at most `max_seq`
  // tokens.
  Rotary(LayerBase* layer, const Rope& rope, int64_t width, int64_t max_seq);

  void Pack(const LayerCall& call) const;
  // The cosines and sines, as Kernels::rope has them.
  const float* Table(const LayerCall& call) const;
  // Of the `heads` heads of each row, where rows are `stride` elements apart.
  RopeShape ShapeOf(int64_t heads, int64_t stride) const;
  // Turns such heads of x.
  void Turn(const LayerCall& call, int64_t heads, int64_t stride, void* x) const;
  // The gradient by what Turn() was given, where x is that by its result.
  void TurnBack(const LayerCall& call, int64_t heads, int64_t stride, void* x) const;

 private:
  void Apply(const LayerCall& call, int64_t heads, int64_t stride, bool inverse, void* x) const;

  const LayerBase* layer_;
  int64_t width_;
  std::vector<float> inverse_frequencies_;
  float magnitude_;
  int64_t positions_;
  size_t table_offset_;  // fp32 [positions, width]
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_ROTARY_H_
