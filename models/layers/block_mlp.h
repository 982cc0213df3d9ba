#ifndef SLUICE_MODELS_LAYERS_BLOCK_MLP_H_
#define SLUICE_MODELS_LAYERS_BLOCK_MLP_H_

#include <cstddef>
#include <cstdint>

#include "models/layers/decoder_names.h"
#include "models/layers/linear_layer.h"

namespace sluice {

// The second half of a block, between its norm and the residual stream:
//
//   h = input * up, g = act(h)                                  or, with a gate (Shazeer 2020),
//   gate, h = input * their maps, g = act(gate) * h
//   output = g * down + residual
//
// I needs h and gate, W needs the input and g, which is cheap to rebuild.
class BlockMlp {
 public:
  // Declares parameters and tensors in `layer`, which outlives this.
  BlockMlp(LinearLayer* layer, const DecoderConfig& config, const BlockNames& names,
           float output_stddev);

  // Whether BackwardWeight reads its input, and its output_grad.
  bool weight_grad_reads_input() const;
  bool weight_grad_reads_output_grad() const { return down_map_->weight_grad_reads_output_grad(); }
  // g alone, and then the output ([rows, dim], as input, residual and the gradients).
  void Activate(const LayerCall& call, const void* input, void* workspace) const;
  void Project(const LayerCall& call, const void* residual, void* output, void* workspace) const;
  // What Project leaves for the backward, where nobody wants the output.
  void KeepForBackward(const LayerCall& call, void* workspace) const;
  // g, where W reads it.
  void Restore(const LayerCall& call) const;
  void BackwardInput(const LayerCall& call, const void* output_grad, void* input_grad,
                     void* workspace) const;
  void BackwardWeight(const LayerCall& call, const void* input, const void* output_grad,
                      LinearLayer::WeightPass* pass) const;

 private:
  void Combine(const LayerCall& call) const;
  bool gated() const { return gate_map_ != nullptr; }
  int64_t elements() const { return layer_->rows() * hidden_; }

  const LinearLayer* layer_;
  int64_t hidden_;
  Activation activation_;
  const LinearLayer::Map* gate_map_ = nullptr;
  const LinearLayer::Map *up_map_, *down_map_;
  // Tensors: by F, and by I; those of the gate only where there is one.
  int gate_ = LayerBase::kAbsent, h_, g_;
  int dgate_ = LayerBase::kAbsent, dh_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_BLOCK_MLP_H_
