#include "models/layers/decoder_names.h"

#include "absl/strings/str_cat.h"
#include "models/spec/families/family.h"

namespace sluice {
namespace {

BlockNames Gpt2Block(const std::string& prefix) {
  BlockNames names;
  names.attention_norm = prefix + "ln_1";
  names.fused_map = prefix + "attn.c_attn";
  names.output_map = prefix + "attn.c_proj";
  names.mlp_norm = prefix + "ln_2";
  names.up_map = prefix + "mlp.c_fc";
  names.down_map = prefix + "mlp.c_proj";
  return names;
}

// The second of two norms comes after attention, and is called so; where each part has a norm
// before it and one after it (Gemma 2), the one called so is really that after attention.
BlockNames LlamaBlock(const std::string& prefix, bool norms_after) {
  BlockNames names;
  names.attention_norm = prefix + "input_layernorm";
  (norms_after ? names.after_attention_norm : names.mlp_norm) = prefix + "post_attention_layernorm";
  if (norms_after) {
    names.mlp_norm = prefix + "pre_feedforward_layernorm";
    names.after_mlp_norm = prefix + "post_feedforward_layernorm";
  }
  names.query_map = prefix + "self_attn.q_proj";
  names.key_map = prefix + "self_attn.k_proj";
  names.value_map = prefix + "self_attn.v_proj";
  names.query_norm = prefix + "self_attn.q_norm";
  names.key_norm = prefix + "self_attn.k_norm";
  names.output_map = prefix + "self_attn.o_proj";
  names.gate_map = prefix + "mlp.gate_proj";
  names.up_map = prefix + "mlp.up_proj";
  names.down_map = prefix + "mlp.down_proj";
  return names;
}

}  // namespace

bool HasGpt2Parameters(const DecoderConfig& config) { return config.family == kGpt2ModelType; }

DecoderNames NamesOf(const DecoderConfig& config) {
  if (HasGpt2Parameters(config)) {
    return {.token_table = "transformer.wte.weight",
            .position_table = "transformer.wpe.weight",
            .final_norm = "transformer.ln_f",
            .head_table = "lm_head.weight"};
  }
  return {.token_table = "model.embed_tokens.weight",
          .final_norm = "model.norm",
          .head_table = "lm_head.weight"};
}

BlockNames NamesOfBlock(const DecoderConfig& config, int64_t block) {
  if (HasGpt2Parameters(config)) return Gpt2Block(absl::StrCat("transformer.h.", block, "."));
  return LlamaBlock(absl::StrCat("model.layers.", block, "."), config.norms == 4);
}

}  // namespace sluice
