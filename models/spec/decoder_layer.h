#ifndef SLUICE_MODELS_SPEC_DECODER_LAYER_H_
#define SLUICE_MODELS_SPEC_DECODER_LAYER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/head_blocks.h"
#include "models/spec/layer_spec.h"

namespace sluice {

// What is assumed of the implementation.
struct DecoderKernels {
  bool flash_attention = true;  // scores are never kept; else two copies of them, masked and not
  bool dropout = false;         // masks of one byte per element (GPT-2's three per block)
  // So many ranks share every layer, and one rank's part is described: whole heads, and slices of
  // the MLP, the experts and the vocabulary (Shoeybi et al., Megatron-LM, 2019, section 3). What
  // does not divide evenly is that of the fullest rank. Needs the heads of latent attention, too.
  int64_t tensor = 1;
  // Between those parts each rank keeps a slice of the tokens, not all of them (Korthikanti et al.
  // 2022, section 4.2.2).
  bool sequence = false;
  HeadLimits head = kProcessorHead;
};

// `count` products alike: rows x in with in x out.
struct MatrixProduct {
  double rows = 0;
  double out = 0;
  double in = 0;
  double count = 1;
  // Else of activations with activations: attention, whose backward is all input gradient.
  bool weights = true;
  // The map to the vocabulary in blocks (head_blocks.h): F also has the product of its input's
  // gradient, and W that of the logits.
  bool in_blocks = false;
};

// One tensor that a layer's forward leaves for its backward.
struct SavedTensor {
  std::string op;        // what reads it: "norm", "query, key, value", "attention", ...
  int64_t bytes = 0;     // for one micro-batch
  bool rebuilt = false;  // cheap to rebuild: dropped by selective recomputation
};

// A layer of a decoder with what it keeps.
struct DecoderLayer {
  LayerSpec spec;
  std::vector<SavedTensor> saved;
  std::vector<MatrixProduct> products;  // of the forward
  // How often the ranks that share the layer sum `rows x dim` activations, in F and in I.
  int forward_sums = 0;
  int input_grad_sums = 0;
  // Of one micro-batch, what the weight gradients need: every map's input and the gradient of its
  // output.
  int64_t weight_grad_bytes = 0;
  // The largest map's output and its gradient: what a call needs on top.
  int64_t workspace_bytes = 0;

  int64_t saved_bytes() const;
  int64_t rebuilt_bytes() const;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_DECODER_LAYER_H_
