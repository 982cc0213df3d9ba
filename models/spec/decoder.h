#ifndef SLUICE_MODELS_SPEC_DECODER_H_
#define SLUICE_MODELS_SPEC_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/model_spec.h"

namespace sluice {

// Multi-head latent attention: queries, and keys with values, go through narrow matrices
// (DeepSeek-V2, 2024, section 2.1).
struct LatentAttention {
  int64_t query_rank = 0;  // 0: queries are not compressed
  int64_t key_value_rank = 0;
  int64_t plain_dim = 0;   // of a head's query and key, without position (qk_nope_head_dim)
  int64_t rotary_dim = 0;  // with position, one key for all heads (qk_rope_head_dim)
  int64_t value_dim = 0;
};

// A mixture of experts in place of a block's MLP.
struct Experts {
  int64_t count = 0;
  int64_t active = 0;         // a token goes through so many
  int64_t hidden = 0;         // inner width of one
  int64_t shared_hidden = 0;  // inner width of what every token goes through as well; 0: none
  bool shared_gate = false;   // a learned gate on the shared part (Qwen2-MoE)
  int64_t first_block = 0;    // blocks before it have a plain MLP
  int64_t every = 1;          // of the blocks from first_block on, each so-many-th has experts
};

// A decoder-only transformer that sluice plans for but does not train: the widths from which
// parameters, FLOPs and bytes follow. Weights are stored and computed in one type.
struct DecoderConfig {
  std::string family;  // Hugging Face's model_type
  int64_t layers = 0;
  int64_t dim = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // fewer than heads: grouped-query attention
  int64_t head_dim = 0;
  int64_t hidden = 0;  // inner width of the MLP
  int64_t vocab = 0;
  int64_t max_seq = 0;
  bool tied_head = false;
  bool gated_mlp = true;           // two matrices in, one out; else one in, one out
  bool qkv_bias = false;           // of the query, key and value maps
  bool output_bias = false;        // of attention's last map
  bool mlp_bias = false;           // of every map of the MLP
  bool qk_norm = false;            // a norm over each head's query and key
  int64_t norms = 2;               // a block
  bool norm_bias = false;          // layer norm, rather than root-mean-square norm
  bool learned_positions = false;  // a table of max_seq rows
  int64_t window = 0;              // a token sees so many before it; 0: all
  int64_t global_every = 0;        // each so-many-th block sees all in spite of `window`
  std::optional<LatentAttention> latent;
  std::optional<Experts> experts;
  int64_t predict_ahead = 0;  // extra blocks that predict further tokens (DeepSeek-V3, section 2.2)

  bool HasExperts(int64_t block) const;
  // How many tokens the last token of `seq` sees in this block.
  int64_t Reach(int64_t block, int64_t seq) const;
};

// What is assumed of the implementation.
struct DecoderKernels {
  bool flash_attention = true;  // scores are never kept; else two copies of them, masked and not
  bool dropout = false;         // masks of one byte an element (GPT-2's three a block)
  // So many ranks share every layer, and one rank's part is described: whole heads, and slices of
  // the MLP, the experts and the vocabulary (Shoeybi et al., Megatron-LM, 2019, section 3). What
  // does not divide evenly is that of the fullest rank. Needs the heads of latent attention, too.
  int64_t tensor = 1;
  // Between those parts each rank keeps a slice of the tokens, not all of them (Korthikanti et al.
  // 2022, section 4.2.2).
  bool sequence = false;
};

// `count` products alike: rows x in with in x out.
struct MatrixProduct {
  double rows = 0;
  double out = 0;
  double in = 0;
  double count = 1;
  // Else of activations with activations: attention, whose backward is all input gradient.
  bool weights = true;
};

// One tensor that a layer's forward leaves for its backward.
struct SavedTensor {
  std::string op;        // what reads it: "norm", "query, key, value", "attention", ...
  int64_t bytes = 0;     // for one micro-batch
  bool rebuilt = false;  // cheap to rebuild: dropped by selective recomputation
};

// A layer with what it keeps. Layers are numbered as ModelSpec's: embedding, blocks, [blocks that
// predict ahead], head.
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

// `dtype` is that of the activations.
std::vector<DecoderLayer> DescribeDecoder(const DecoderConfig& config, const BatchShape& batch,
                                          DType dtype, const DecoderKernels& kernels = {});
int64_t ParameterCount(const DecoderConfig& config);

// Hugging Face's config.json of model_type llama, mistral, mixtral, qwen2, qwen3, qwen2_moe,
// qwen3_moe, deepseek_v2, deepseek_v3, gemma, gemma2, gemma3_text (and gemma3, whose text part it
// takes) or gpt2. `assume`, where not empty, is the family to read an unknown model_type as.
// InvalidArgument names the file and the field that is missing, of the wrong type, out of range or
// not supported.
absl::StatusOr<DecoderConfig> ParseDecoderConfig(absl::string_view json, absl::string_view file,
                                                 absl::string_view assume = "");

// What sluice trains, as a decoder.
DecoderConfig DecoderOf(const GptConfig& gpt);

// "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3". NotFound lists
// them.
absl::StatusOr<DecoderConfig> PresetDecoder(absl::string_view name);

std::vector<std::string> DecoderPresets();  // their names

// The model_type of a config.json; empty when there is none.
std::string HuggingFaceModelType(absl::string_view json);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_DECODER_H_
