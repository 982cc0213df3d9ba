#ifndef SLUICE_MODELS_LAYERS_PROJECTIONS_H_
#define SLUICE_MODELS_LAYERS_PROJECTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "models/layers/decoder_names.h"
#include "models/layers/linear_layer.h"

namespace sluice {

// Elements of a row of a block's queries, and of its keys or its values, and from a row to the next:
// with one map for all three, a row of its tensor holds them side by side.
struct HeadLayout {
  bool fused = false;
  int64_t q_width = 0, kv_width = 0;
  int64_t q_stride = 0, kv_stride = 0;
};
HeadLayout HeadLayoutOf(const DecoderConfig& config);

// The maps that make a block's queries, keys and values of its normed input. GPT-2 has one for all
// three, which then lie side by side in one tensor; other families have one, and a tensor, each.
class Projections {
 public:
  // Where rows of queries, keys and values (or of their gradients) begin.
  struct Heads {
    void* q = nullptr;
    void* k = nullptr;
    void* v = nullptr;
  };

  Projections(LinearLayer* layer, const DecoderConfig& config, const BlockNames& names);

  const HeadLayout& layout() const { return layout_; }
  // Whether that of any map does.
  bool weight_grad_reads_input() const;

  // Until I, and from I until W.
  Heads Values(const LayerCall& call) const { return At(call, values_); }
  Heads Gradients(const LayerCall& call) const { return At(call, gradients_); }

  // Values of `input`, [rows, dim].
  void Forward(const LayerCall& call, const void* input, void* workspace) const;
  // input_grad [rows, dim] of Gradients.
  void BackwardInput(const LayerCall& call, void* input_grad, void* workspace) const;
  void BackwardWeight(const LayerCall& call, const void* input,
                      LinearLayer::WeightPass* pass) const;

 private:
  static constexpr int kMost = 3;
  using Tensors = std::array<int, kMost>;

  void AddFused(LinearLayer* layer, const DecoderConfig& config, const BlockNames& names);
  void AddSeparate(LinearLayer* layer, const DecoderConfig& config, const BlockNames& names);
  Heads At(const LayerCall& call, const Tensors& tensors) const;

  HeadLayout layout_;
  int64_t element_;
  int count_;  // of maps, and of tensors
  std::array<const LinearLayer::Map*, kMost> maps_ = {};
  Tensors values_ = {}, gradients_ = {};
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_PROJECTIONS_H_
