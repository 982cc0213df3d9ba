#include "models/spec/families/common.h"
#include "models/spec/families/family.h"

namespace sluice {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kTheta = 10000;
constexpr int64_t kDefaultWindow = 4096;
constexpr FamilyDefaults kLlama;
constexpr FamilyDefaults kMistral = {.kv_heads = 8};
constexpr FamilyDefaults kQwen2 = {.kv_heads = 32};
constexpr FamilyDefaults kQwen3 = {.kv_heads = 32, .head_dim = 128};

// A window only where "use_sliding_window" is set, then over the blocks from "max_window_layers" on
// unless "layer_types" says which.
void ReadQwenWindow(FieldReader& reader, DecoderConfig* config) {
  bool use = false;
  int64_t first = 28;
  reader.OptionalBool("use_sliding_window", &use);
  reader.OptionalCount("max_window_layers", 0, kMostLayers, &first);
  ReadWindow(reader, kDefaultWindow, config);
  if (!use) config->window = 0;
  const bool window = config->window > 0;
  ReadLayerTypes(
      reader, [&](int64_t block) { return !window || block < first; }, config);
}

void WriteQwenWindow(const DecoderConfig& config, OrderedJson* json) {
  (*json)["use_sliding_window"] = config.window > 0;
  (*json)["sliding_window"] = NumberOrNull(config.window);
  (*json)["max_window_layers"] = config.layers;
  (*json)["layer_types"] = LayerTypesJson(config);
}

}  // namespace

void ReadLlama(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, kLlama, config);
  ReadRope(reader, kTheta, config);
  ReadAttentionBias(reader, config);
  reader.OptionalBool("mlp_bias", &config->mlp_bias);
  reader.OneOf("pretraining_tp", {1});  // else the sums of a product in another order
}

void WriteLlama(const DecoderConfig& config, OrderedJson* to) {
  OrderedJson& json = WriteCommon(config, kLlama, to);
  json["rope_parameters"] = RopeJson(config.rope);
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
}

void ReadMistral(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, kMistral, config);
  ReadRope(reader, kTheta, config);
  ReadWindow(reader, kDefaultWindow, config);
  // transformers takes a file with the field for a Ministral, whose blocks differ.
  ReadLayerTypes(
      reader, [config](int64_t) { return config->window == 0; }, config);
}

void WriteMistral(const DecoderConfig& config, OrderedJson* to) {
  OrderedJson& json = WriteCommon(config, kMistral, to);
  json["rope_parameters"] = RopeJson(config.rope);
  json["sliding_window"] = NumberOrNull(config.window);
  if (!config.global_blocks.empty()) json["layer_types"] = LayerTypesJson(config);
}

void ReadQwen2(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, kQwen2, config);
  ReadRope(reader, kTheta, config);
  config->qkv_bias = true;
  ReadQwenWindow(reader, config);
}

void WriteQwen2(const DecoderConfig& config, OrderedJson* to) {
  OrderedJson& json = WriteCommon(config, kQwen2, to);
  json["rope_parameters"] = RopeJson(config.rope);
  WriteQwenWindow(config, to);
}

void ReadQwen3(FieldReader& reader, DecoderConfig* config) {
  ReadCommon(reader, kQwen3, config);
  ReadRope(reader, kTheta, config);
  ReadAttentionBias(reader, config);
  config->qk_norm = true;
  ReadQwenWindow(reader, config);
}

void WriteQwen3(const DecoderConfig& config, OrderedJson* to) {
  OrderedJson& json = WriteCommon(config, kQwen3, to);
  json["rope_parameters"] = RopeJson(config.rope);
  json["attention_bias"] = config.qkv_bias;
  WriteQwenWindow(config, to);
}

}  // namespace sluice
