#ifndef SLUICE_MODELS_SPEC_DECODER_H_
#define SLUICE_MODELS_SPEC_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "models/spec/head_blocks.h"
#include "models/spec/rope.h"

namespace sluice {

// What brings a row to one scale before a block's maps and the head: layer norm (Ba et al. 2016),
// with gain and bias, or RMS norm (Zhang and Sennrich 2019), with a gain alone.
enum class NormKind : uint8_t { kLayer, kRms };

const char* NormName(NormKind kind);  // "layer", "rms"
std::optional<NormKind> ParseNorm(absl::string_view name);

// What a block's MLP computes of x: down(gelu(up(x))), or down(act(gate(x)) * up(x)) where `act` is
// SiLU or GELU (Shazeer, GLU Variants Improve Transformer, 2020). GELU is its tanh approximation.
enum class MlpKind : uint8_t { kGelu, kSwiGlu, kGeGlu };

const char* MlpName(MlpKind kind);  // "GELU", "SwiGLU", "GeGLU"
inline bool HasGate(MlpKind kind) { return kind != MlpKind::kGelu; }

// Multi-head latent attention: queries, and keys with values, go through narrow matrices
// (DeepSeek-V2, 2024, section 2.1).
struct LatentAttention {
  int64_t query_rank = 0;  // 0: queries are not compressed
  int64_t key_value_rank = 0;
  int64_t plain_dim = 0;   // of a head's query and key, without position (qk_nope_head_dim)
  int64_t rotary_dim = 0;  // with position, one key for all heads (qk_rope_head_dim)
  int64_t value_dim = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
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
  friend bool operator==(const Experts&, const Experts&) = default;
};

// A decoder-only transformer. The defaults are GPT-2's architecture (Radford et al. 2019) in the
// size of the preset char-gpt. Every field counts for parameters, FLOPs and bytes
// (describe_decoder.h); those that no layer computes yet, CheckTrainable names
// (models/layers/trainable.h). Weights are stored and computed in one type.
struct DecoderConfig {
  std::string family = "gpt2";  // Hugging Face's model_type

  // Sizes.
  int64_t layers = 6;  // transformer blocks
  int64_t dim = 384;
  int64_t heads = 6;     // of queries
  int64_t kv_heads = 0;  // of keys and values; fewer: grouped queries. 0: as many as `heads`
  int64_t head_dim = 0;  // 0: dim / heads; dim must be a multiple
  int64_t vocab = 256;
  int64_t max_seq = 256;
  int64_t hidden = 0;  // inner width of the MLP; 0: 4 * dim

  // The embedding and the head.
  bool learned_positions = true;  // a table of max_seq rows; else `rope`, without parameters
  float embedding_scale = 1;      // of its rows (Gemma: the square root of dim)
  bool tied_head = false;         // the head's matrix is the embedding's
  float final_soft_cap = 0;       // logits become cap * tanh(logit / cap); 0: none (Gemma 2)
  // The head computes logits of so many rows at a time, rounded up to 16; 0: as many as its kind of
  // device has at once (head_blocks.h). Sums of weight gradients, and so bits, depend on it.
  int64_t head_rows = 0;
  int64_t predict_ahead = 0;  // extra blocks that predict further tokens (DeepSeek-V3, section 2.2)

  // Norms.
  float norm_epsilon = 1e-5f;
  NormKind norm = NormKind::kLayer;
  bool norm_offset = false;  // a norm's gain is 1 + its weight (Gemma)
  int64_t norms = 2;     // per block: one before attention and the MLP; with 4, one after each, too
  bool qk_norm = false;  // over each head's query and key

  // Attention.
  bool qkv_bias = true;          // of the query, key and value maps
  bool output_bias = true;       // of attention's last map
  float attention_scale = 0;     // of the scores; 0: 1 / sqrt(head_width())
  float attention_soft_cap = 0;  // scores become cap * tanh(score / cap); 0: none (Gemma 2)
  int64_t window = 0;  // a token sees itself and the window - 1 before it; 0: all before it
  // Block b sees all in spite of `window` where [b] is set; of `layers` entries, or none: then none
  // does.
  std::vector<bool> global_blocks = {};
  Rope rope = {};
  std::optional<Rope> local_rope = {};  // of the blocks with a window (Gemma 3); else `rope`
  std::optional<LatentAttention> latent = {};

  // The MLP.
  MlpKind mlp = MlpKind::kGelu;
  bool mlp_bias = true;  // of every map
  std::optional<Experts> experts = {};

  // Standard deviation of the matrices that training starts from without weights.
  float initializer_range = 0.02f;

  int64_t key_value_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t head_width() const { return head_dim > 0 ? head_dim : dim / heads; }
  int64_t mlp_width() const { return hidden > 0 ? hidden : 4 * dim; }
  // Of a micro-batch of so many rows.
  HeadBlocks head_blocks(int64_t rows, const HeadLimits& limits) const;
  bool HasExperts(int64_t block) const;
  bool HasWindow(int64_t block) const;
  const Rope& RopeOf(int64_t block) const {
    return local_rope && HasWindow(block) ? *local_rope : rope;
  }
  // How many tokens the last token of `seq` sees in this block.
  int64_t Reach(int64_t block, int64_t seq) const;

  friend bool operator==(const DecoderConfig&, const DecoderConfig&) = default;
};

// Llama's architecture (Touvron et al., LLaMA, 2023, section 2.2), which most later families vary:
// RMS norms, rotary positions, SwiGLU, no biases. The sizes are still to be set.
DecoderConfig LlamaDecoder(absl::string_view family);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_DECODER_H_
