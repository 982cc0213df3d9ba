#include "models/spec/families/common.h"
#include "models/spec/families/family.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostExperts = 1 << 12;
constexpr int64_t kMostShared = 1 << 8;
constexpr int64_t kMostAhead = 1 << 6;
constexpr double kTheta = 10000;
constexpr int64_t kQueryRank = 1536;

// What a DeepSeek has where its fields are left out.
struct DeepSeekDefaults {
  int64_t experts = 0, shared = 0;
  int64_t first_block = 0;  // with experts
};
constexpr DeepSeekDefaults kDeepSeekV2 = {.experts = 64, .shared = 2};
constexpr DeepSeekDefaults kDeepSeekV3 = {.experts = 256, .shared = 1, .first_block = 3};

// `count` names how many there are.
Experts ReadQwenExperts(FieldReader& reader, const char* count) {
  Experts experts;
  reader.Count(count, 1, kMostExperts, &experts.count);
  reader.Count("num_experts_per_tok", 1, experts.count, &experts.active);
  reader.Count("moe_intermediate_size", 1, kWidest, &experts.hidden);
  reader.OptionalCount("decoder_sparse_step", 1, kMostLayers, &experts.every);
  reader.OneOf("mlp_only_layers", {Json::array()});
  experts.first_block = experts.every - 1;
  return experts;
}

LatentAttention ReadLatent(FieldReader& reader, int64_t heads) {
  LatentAttention latent;
  CountOrNone(reader, "q_lora_rank", 1, kWidest, kQueryRank, &latent.query_rank);
  reader.Count("kv_lora_rank", 1, kWidest, &latent.key_value_rank);
  reader.Count("qk_nope_head_dim", 1, kWidest, &latent.plain_dim);
  reader.Count("qk_rope_head_dim", 1, kWidest, &latent.rotary_dim);
  reader.Count("v_head_dim", 1, kWidest, &latent.value_dim);
  CheckAllHeads(reader, "qk_nope_head_dim", heads, latent.plain_dim + latent.rotary_dim);
  CheckAllHeads(reader, "v_head_dim", heads, latent.value_dim);
  return latent;
}

void ReadDeepSeek(FieldReader& reader, const DeepSeekDefaults& defaults, DecoderConfig* config) {
  ReadCommon(reader, {}, config);
  ReadRope(reader, kTheta, config);
  ReadAttentionBias(reader, config);
  config->latent = ReadLatent(reader, config->heads);
  reader.OptionalCount("num_nextn_predict_layers", 0, kMostAhead, &config->predict_ahead);
  Experts experts;
  int64_t shared = 0;
  CountOrNone(reader, "n_routed_experts", 1, kMostExperts, defaults.experts, &experts.count);
  if (experts.count == 0) return;
  reader.Count("num_experts_per_tok", 1, experts.count, &experts.active);
  reader.Count("moe_intermediate_size", 1, kWidest, &experts.hidden);
  CountOrNone(reader, "n_shared_experts", 0, kMostShared, defaults.shared, &shared);
  CountOrNone(reader, "first_k_dense_replace", 0, kMostLayers, defaults.first_block,
              &experts.first_block);
  reader.OneOf("moe_layer_freq", {1});
  experts.shared_hidden = shared * experts.hidden;
  config->experts = experts;
}

}  // namespace

void ReadMixtral(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, {.kv_heads = 8, .norm_epsilon = 1e-5f}, config);
  ReadRope(reader, 1e6, config);
  ReadWindow(reader, 0, config);
  Experts experts{.hidden = config->hidden};
  reader.Count("num_local_experts", 1, kMostExperts, &experts.count);
  reader.Count("num_experts_per_tok", 1, experts.count, &experts.active);
  config->experts = experts;
}

void ReadQwen2Moe(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, {.kv_heads = 16}, config);
  ReadRope(reader, kTheta, config);
  config->qkv_bias = true;
  reader.OptionalBool("qkv_bias", &config->qkv_bias);
  reader.OneOf("use_sliding_window", {false});
  Experts experts = ReadQwenExperts(reader, "num_experts");
  reader.Count("shared_expert_intermediate_size", 1, kWidest, &experts.shared_hidden);
  experts.shared_gate = true;
  config->experts = experts;
}

void ReadQwen3Moe(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, {.kv_heads = 4}, config);
  ReadRope(reader, kTheta, config);
  ReadAttentionBias(reader, config);
  config->qk_norm = true;
  reader.OneOf("use_sliding_window", {false});
  // As transformers 5 saves it, where it is not as the released models have it.
  const bool saved = reader.Has("num_local_experts") && !reader.Has("num_experts");
  config->experts = ReadQwenExperts(reader, saved ? "num_local_experts" : "num_experts");
}

void ReadDeepSeekV2(FieldReader& reader, DecoderConfig* config) {
  ReadDeepSeek(reader, kDeepSeekV2, config);
  reader.OptionalBool("mlp_bias", &config->mlp_bias);
}

void ReadDeepSeekV3(FieldReader& reader, DecoderConfig* config) {
  ReadDeepSeek(reader, kDeepSeekV3, config);
}

}  // namespace sluice
