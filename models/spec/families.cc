#include "models/spec/families.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// So wide that no real model meets them, so narrow that no count of parameters overflows 64 bits.
constexpr int64_t kMostLayers = 1 << 12;
constexpr int64_t kWidest = 1 << 18;
constexpr int64_t kMostIds = 1 << 24;
constexpr int64_t kMostExperts = 1 << 12;
constexpr int64_t kMostShared = 1 << 8;
constexpr int64_t kMostAhead = 1 << 6;

// All heads together are a width as well.
void CheckAllHeads(FieldReader& reader, const char* field, int64_t heads, int64_t head_dim) {
  if (heads * head_dim <= kWidest) return;
  reader.Fail(field, absl::StrCat("at most ", kWidest / heads, " with ", heads, " heads"));
}

// What GPT2Config offers and sluice does not describe. Absent fields have the value that it does.
void RefuseOtherGpts(FieldReader& reader) {
  reader.OneOf("architectures",
               {Json::array({kGpt2Architecture}), Json::array({kOwnArchitecture})});
  reader.OneOf("activation_function",
               {"gelu_new", "gelu_pytorch_tanh"});  // one function, two names
  reader.OneOf("scale_attn_weights", {true});
  reader.OneOf("scale_attn_by_inverse_layer_idx", {false});
  reader.OneOf("add_cross_attention", {false});
}

// "norm" is sluice's own field; layer norms where it is absent.
NormKind ReadNorm(FieldReader& reader) {
  std::string name = NormName(NormKind::kLayer);
  reader.OptionalString("norm", &name);
  const std::optional<NormKind> norm = ParseNorm(name);
  if (!norm) reader.Fail("norm", "\"layer\" or \"rms\"");
  return norm.value_or(NormKind::kLayer);
}

void ReadGpt(FieldReader& reader, DecoderConfig* config) {
  RefuseOtherGpts(reader);
  config->family = kGpt2ModelType;  // whichever its norms are
  config->tied_head = true;         // transformers' default
  reader.Int("n_layer", &config->layers);
  reader.Int("n_embd", &config->dim);
  reader.Int("n_head", &config->heads);
  reader.Int("n_positions", &config->max_seq);
  reader.Int("vocab_size", &config->vocab);
  reader.OptionalInt("n_inner", &config->hidden);
  reader.OptionalFloat("layer_norm_epsilon", &config->norm_epsilon);
  reader.OptionalBool("tie_word_embeddings", &config->tied_head);
  config->norm = ReadNorm(reader);
}

// What every other family names alike. Fields that transformers lets one leave out keep its
// defaults.
void ReadCommon(FieldReader& reader, DecoderConfig* config) {
  *config = LlamaDecoder(config->family);
  reader.Count("hidden_size", 1, kWidest, &config->dim);
  reader.Count("num_hidden_layers", 1, kMostLayers, &config->layers);
  reader.Count("num_attention_heads", 1, kWidest, &config->heads);
  reader.Count("intermediate_size", 1, kWidest, &config->hidden);
  reader.Count("vocab_size", 2, kMostIds, &config->vocab);
  reader.Count("max_position_embeddings", 1, kMostIds, &config->max_seq);
  config->kv_heads = config->heads;
  reader.OptionalCount("num_key_value_heads", 1, kWidest, &config->kv_heads);
  reader.OptionalFloat("rms_norm_eps", &config->norm_epsilon);
  reader.OptionalBool("tie_word_embeddings", &config->tied_head);
  if (!reader.status().ok()) return;
  config->head_dim = config->dim / config->heads;
  if (!reader.Has("head_dim") && config->dim % config->heads != 0) {
    reader.Fail("num_attention_heads",
                absl::StrCat("a divisor of hidden_size ", config->dim, " (or a head_dim)"));
  }
  reader.OptionalCount("head_dim", 1, kWidest, &config->head_dim);
  CheckAllHeads(reader, "head_dim", config->heads, config->head_dim);
  if (config->heads % config->kv_heads != 0) {
    reader.Fail("num_key_value_heads",
                absl::StrCat("a divisor of num_attention_heads ", config->heads));
  }
}

void ReadWindow(FieldReader& reader, DecoderConfig* config) {
  reader.OptionalCount("sliding_window", 1, kMostIds, &config->window);
}

// The last of each `every` blocks sees all in spite of the window.
void SeeAllEvery(int64_t every, DecoderConfig* config) {
  config->global_blocks.assign(static_cast<size_t>(config->layers), false);
  for (int64_t block = every - 1; block < config->layers; block += every) {
    config->global_blocks[static_cast<size_t>(block)] = true;
  }
}

// Qwen has a window, over some of its blocks, only where this is set.
void RefuseWindow(FieldReader& reader) { reader.OneOf("use_sliding_window", {false}); }

void ReadLlama(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, config);
  bool attention_bias = false;
  reader.OptionalBool("attention_bias", &attention_bias);
  reader.OptionalBool("mlp_bias", &config->mlp_bias);
  config->qkv_bias = config->output_bias = attention_bias;
}

void ReadMistral(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, config);
  ReadWindow(reader, config);
}

void ReadQwen2(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, config);
  config->qkv_bias = true;
  RefuseWindow(reader);
}

void ReadQwen3(FieldReader& reader, DecoderConfig* config) {
  ReadLlama(reader, config);
  config->qk_norm = true;
  RefuseWindow(reader);
}

void ReadMixtral(FieldReader& reader, DecoderConfig* config) {
  ReadMistral(reader, config);
  Experts experts{.hidden = config->hidden};
  reader.Count("num_local_experts", 1, kMostExperts, &experts.count);
  reader.Count("num_experts_per_tok", 1, experts.count, &experts.active);
  config->experts = experts;
}

Experts ReadQwenExperts(FieldReader& reader) {
  Experts experts;
  reader.Count("num_experts", 1, kMostExperts, &experts.count);
  reader.Count("num_experts_per_tok", 1, experts.count, &experts.active);
  reader.Count("moe_intermediate_size", 1, kWidest, &experts.hidden);
  reader.OptionalCount("decoder_sparse_step", 1, kMostLayers, &experts.every);
  reader.OneOf("mlp_only_layers", {Json::array()});
  experts.first_block = experts.every - 1;
  return experts;
}

void ReadQwen2Moe(FieldReader& reader, DecoderConfig* config) {
  ReadQwen2(reader, config);
  Experts experts = ReadQwenExperts(reader);
  reader.Count("shared_expert_intermediate_size", 1, kWidest, &experts.shared_hidden);
  experts.shared_gate = true;
  config->experts = experts;
}

void ReadQwen3Moe(FieldReader& reader, DecoderConfig* config) {
  ReadQwen3(reader, config);
  config->experts = ReadQwenExperts(reader);
}

void ReadDeepSeek(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, config);
  bool attention_bias = false;
  reader.OptionalBool("attention_bias", &attention_bias);
  config->qkv_bias = config->output_bias = attention_bias;
  LatentAttention latent;
  reader.OptionalCount("q_lora_rank", 1, kWidest, &latent.query_rank);
  reader.Count("kv_lora_rank", 1, kWidest, &latent.key_value_rank);
  reader.Count("qk_nope_head_dim", 1, kWidest, &latent.plain_dim);
  reader.Count("qk_rope_head_dim", 1, kWidest, &latent.rotary_dim);
  reader.Count("v_head_dim", 1, kWidest, &latent.value_dim);
  CheckAllHeads(reader, "qk_nope_head_dim", config->heads, latent.plain_dim + latent.rotary_dim);
  CheckAllHeads(reader, "v_head_dim", config->heads, latent.value_dim);
  config->latent = latent;
  if (!reader.Has("n_routed_experts")) return;
  Experts experts;
  int64_t shared = 0;
  reader.Count("n_routed_experts", 1, kMostExperts, &experts.count);
  reader.Count("num_experts_per_tok", 1, experts.count, &experts.active);
  reader.Count("moe_intermediate_size", 1, kWidest, &experts.hidden);
  reader.OptionalCount("n_shared_experts", 0, kMostShared, &shared);
  reader.OptionalCount("first_k_dense_replace", 0, kMostLayers, &experts.first_block);
  reader.OneOf("moe_layer_freq", {1});
  reader.OptionalCount("num_nextn_predict_layers", 0, kMostAhead, &config->predict_ahead);
  experts.shared_hidden = shared * experts.hidden;
  config->experts = experts;
}

void ReadGemma(FieldReader& reader, DecoderConfig* config) {
  ReadLlama(reader, config);
  config->mlp = MlpKind::kGeGlu;
  if (!reader.Has("tie_word_embeddings")) config->tied_head = true;  // transformers' default
}

void ReadGemma2(FieldReader& reader, DecoderConfig* config) {
  ReadGemma(reader, config);
  config->norms = 4;
  ReadWindow(reader, config);
  SeeAllEvery(2, config);
}

void ReadGemma3(FieldReader& reader, DecoderConfig* config) {
  ReadGemma2(reader, config);
  config->qk_norm = true;
  int64_t every = 6;
  reader.OptionalCount("sliding_window_pattern", 1, kMostLayers, &every);
  SeeAllEvery(every, config);
}

constexpr Family kFamilies[] = {
    {kGpt2ModelType, ReadGpt},     {kOwnModelType, ReadGpt},      {"llama", ReadLlama},
    {"mistral", ReadMistral},      {"mixtral", ReadMixtral},      {"qwen2", ReadQwen2},
    {"qwen3", ReadQwen3},          {"qwen2_moe", ReadQwen2Moe},   {"qwen3_moe", ReadQwen3Moe},
    {"deepseek_v2", ReadDeepSeek}, {"deepseek_v3", ReadDeepSeek}, {"gemma", ReadGemma},
    {"gemma2", ReadGemma2},        {"gemma3_text", ReadGemma3},
};

}  // namespace

absl::Span<const Family> Families() { return kFamilies; }

const Family* FindFamily(absl::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

}  // namespace sluice
