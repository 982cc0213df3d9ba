#include <cmath>

#include "models/spec/families/common.h"
#include "models/spec/families/family.h"

namespace sluice {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kTheta = 10000;
constexpr int64_t kDefaultWindow = 4096;
constexpr double kSmallestCap = 1e-6, kLargestCap = 1e6;
constexpr int64_t kDefaultScalar = 256;
constexpr char kGeluTanh[] = "gelu_pytorch_tanh";
// In files of Gemma 1 "gelu" means the tanh form: GemmaConfig replaces it.
constexpr FamilyDefaults kGemma = {.kv_heads = 16,
                                   .head_dim = 256,
                                   .tied_head = true,
                                   .activation = kGeluTanh,
                                   .gelu_is_tanh = true};
constexpr FamilyDefaults kGemma2 = {.kv_heads = 4,
                                    .head_dim = 256,
                                    .tied_head = true,
                                    .activation_field = "hidden_activation",
                                    .activation = kGeluTanh};
// The text parts of released models with pictures leave most of it out.
constexpr FamilyDefaults kGemma3 = {.heads = 8,
                                    .kv_heads = 4,
                                    .head_dim = 256,
                                    .vocab = 262208,
                                    .max_seq = 131072,
                                    .tied_head = true,
                                    .activation_field = "hidden_activation",
                                    .activation = kGeluTanh};

void ReadEveryGemma(FieldReader& reader, const FamilyDefaults& defaults, DecoderConfig* config) {
  ReadCommon(reader, defaults, config);
  ReadAttentionBias(reader, config);
  reader.OneOf("use_bidirectional_attention", {false});
  config->norm_offset = true;
  config->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config->dim)));
}

// "query_pre_attn_scalar": scores are divided by its square root.
float ScaleOf(int64_t scalar) {
  return static_cast<float>(std::pow(static_cast<double>(scalar), -0.5));
}

int64_t ScalarOf(const DecoderConfig& config) {
  const double scale = config.attention_scale;
  return scale > 0 ? std::llround(1 / (scale * scale)) : config.head_width();
}

// `otherwise` where the field is left out, none where it is null.
float ReadCap(FieldReader& reader, const char* field, double otherwise) {
  double cap = reader.Absent(field) ? otherwise : 0;
  reader.OptionalNumber(field, kSmallestCap, kLargestCap, &cap);
  return static_cast<float>(cap);
}

OrderedJson CapJson(float cap) { return cap > 0 ? OrderedJson(ShortestDecimal(cap)) : nullptr; }

// What Gemma 2 brought.
void ReadLaterGemma(FieldReader& reader, const FamilyDefaults& defaults, double attention_cap,
                    double final_cap, DecoderConfig* config) {
  ReadEveryGemma(reader, defaults, config);
  config->norms = 4;
  int64_t scalar = kDefaultScalar;
  reader.OptionalCount("query_pre_attn_scalar", 1, kWidest, &scalar);
  config->attention_scale = ScaleOf(scalar);
  config->attention_soft_cap = ReadCap(reader, "attn_logit_softcapping", attention_cap);
  config->final_soft_cap = ReadCap(reader, "final_logit_softcapping", final_cap);
  ReadWindow(reader, kDefaultWindow, config);
}

OrderedJson& WriteLaterGemma(const DecoderConfig& config, const FamilyDefaults& defaults,
                             OrderedJson* to) {
  OrderedJson& json = WriteCommon(config, defaults, to);
  json["attention_bias"] = config.qkv_bias;
  json["query_pre_attn_scalar"] = ScalarOf(config);
  json["attn_logit_softcapping"] = CapJson(config.attention_soft_cap);
  json["final_logit_softcapping"] = CapJson(config.final_soft_cap);
  // Without a window transformers still wants a number, of blocks that are not there.
  json["sliding_window"] = config.window > 0 ? config.window : kDefaultWindow;
  json["layer_types"] = LayerTypesJson(config);
  return json;
}

// The last of each `every` blocks sees all in spite of the window.
void ReadEvery(FieldReader& reader, int64_t every, DecoderConfig* config) {
  ReadLayerTypes(
      reader, [&](int64_t block) { return (block + 1) % every == 0; }, config);
}

}  // namespace

void ReadGemma(FieldReader& reader, DecoderConfig* config) {
  ReadEveryGemma(reader, kGemma, config);
  ReadRope(reader, kTheta, config);
}

void WriteGemma(const DecoderConfig& config, OrderedJson* to) {
  OrderedJson& json = WriteCommon(config, kGemma, to);
  json["rope_parameters"] = RopeJson(config.rope);
  json["attention_bias"] = config.qkv_bias;
}

void ReadGemma2(FieldReader& reader, DecoderConfig* config) {
  ReadLaterGemma(reader, kGemma2, 50, 30, config);
  ReadRope(reader, kTheta, config);
  ReadEvery(reader, 2, config);
}

void WriteGemma2(const DecoderConfig& config, OrderedJson* to) {
  WriteLaterGemma(config, kGemma2, to)["rope_parameters"] = RopeJson(config.rope);
}

void ReadGemma3(FieldReader& reader, DecoderConfig* config) {
  ReadLaterGemma(reader, kGemma3, 0, 0, config);
  if (config->attention_soft_cap > 0)
    reader.Fail("attn_logit_softcapping", "null: transformers computes Gemma 3 without it");
  config->qk_norm = true;
  int64_t every = 6;
  reader.OptionalCount("sliding_window_pattern", 1, kMostLayers, &every);
  ReadEvery(reader, every, config);
  ReadRopesOfGemma3(reader, config);
}

void WriteGemma3(const DecoderConfig& config, OrderedJson* to) {
  const Rope local = config.local_rope.value_or(Rope{});
  WriteLaterGemma(config, kGemma3, to)["rope_parameters"] = {
      {kGlobalAttention, RopeJson(config.rope)}, {kLocalAttention, RopeJson(local)}};
}

}  // namespace sluice
