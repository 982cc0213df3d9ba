#ifndef SLUICE_MODELS_SPEC_COSTS_DECODER_LAYER_H_
#define SLUICE_MODELS_SPEC_COSTS_DECODER_LAYER_H_

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
  bool trained = true;  // else W has no product
};

// One tensor that a layer's forward leaves for its backward.
struct SavedTensor {
  std::string op;        // what reads it: "norm", "query, key, value", "attention", ...
  int64_t bytes = 0;     // for one micro-batch
  bool rebuilt = false;  // cheap to rebuild: dropped by selective recomputation
  bool kept = true;      // else only F and I see it: what would read it in W is frozen
};

// How often the ranks that share a layer exchange the rank-wide activations of its adapters: an
// all-gather or a reduce-scatter is one pass, an all-reduce two.
struct AdapterPasses {
  int forward = 0;
  int input_grad = 0;
  int64_t elements = 0;  // of one: rows x rank
};

// A layer of a decoder with what it keeps.
struct DecoderLayer {
  LayerSpec spec;
  // Of spec.parameters, those that are frozen; and beside spec.parameters, those of adapters. With
  // sequence parallelism some of the latter have gradients of a slice of the tokens, which the
  // ranks that share the layer sum (as norms have, which are too few to count).
  int64_t frozen_parameters = 0;
  int64_t adapter_parameters = 0;
  int64_t sliced_adapter_parameters = 0;
  std::vector<SavedTensor> saved;
  std::vector<MatrixProduct> products;  // of the forward
  // How often the ranks that share the layer sum `rows x dim` activations, in F and in I.
  int forward_sums = 0;
  int input_grad_sums = 0;
  AdapterPasses adapter_passes;
  // Of one micro-batch, what the weight gradients need: every trained map's input and the gradient
  // of its output; and what it would be if all maps were trained, without adapters.
  int64_t weight_grad_bytes = 0;
  int64_t whole_weight_grad_bytes = 0;
  // The largest map's output and its gradient: what a call needs on top.
  int64_t workspace_bytes = 0;
  int64_t forward_workspace_bytes = 0;  // the output alone

  int64_t trained_parameters() const {
    return spec.parameters - frozen_parameters + adapter_parameters;
  }
  int64_t saved_bytes() const;
  int64_t rebuilt_bytes() const;
  int64_t seen_bytes() const;  // of all in `saved`, kept or not
};

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_COSTS_DECODER_LAYER_H_
