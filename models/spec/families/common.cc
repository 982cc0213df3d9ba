#include "models/spec/families/common.h"

#include <charconv>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kSilu[] = "silu";
constexpr char kGelu[] = "gelu_pytorch_tanh";

struct ActivationName {
  const char* name;
  MlpKind mlp;
};

// transformers' names of the two that gated MLPs have; it computes "gelu" with the error function.
constexpr ActivationName kActivations[] = {{kSilu, MlpKind::kSwiGlu},
                                           {"swish", MlpKind::kSwiGlu},
                                           {kGelu, MlpKind::kGeGlu},
                                           {"gelu_new", MlpKind::kGeGlu}};

void ReadActivation(FieldReader& reader, const FamilyDefaults& defaults, DecoderConfig* config) {
  std::string found = defaults.activation;
  reader.OptionalString(defaults.activation_field, &found);
  if (defaults.gelu_is_tanh && found == "gelu") found = kGelu;
  for (const auto& [name, mlp] : kActivations) {
    if (found != name) continue;
    config->mlp = mlp;
    return;
  }
  reader.Fail(defaults.activation_field, absl::StrCat("\"", kSilu, "\" or \"", kGelu, "\""));
}

void CountOr(FieldReader& reader, const char* field, int64_t low, int64_t high, int64_t otherwise,
             int64_t* value) {
  if (otherwise == 0) return reader.Count(field, low, high, value);
  *value = otherwise;
  reader.OptionalCount(field, low, high, value);
}

// Heads, and the width of one where it is not dim / heads.
void ReadHeads(FieldReader& reader, const FamilyDefaults& defaults, DecoderConfig* config) {
  CountOr(reader, "num_attention_heads", 1, kWidest, defaults.heads, &config->heads);
  const bool as_heads = !reader.Absent("num_key_value_heads") || defaults.kv_heads == 0;
  config->kv_heads = as_heads ? config->heads : defaults.kv_heads;
  reader.OptionalCount("num_key_value_heads", 1, kWidest, &config->kv_heads);
  int64_t head_dim = defaults.head_dim;
  reader.OptionalCount("head_dim", 1, kWidest, &head_dim);
  if (!reader.status().ok()) return;
  const bool divides = config->dim % config->heads == 0;
  if (head_dim == 0 && !divides) {
    return reader.Fail("num_attention_heads",
                       absl::StrCat("a divisor of hidden_size ", config->dim, " (or a head_dim)"));
  }
  config->head_dim = divides && head_dim == config->dim / config->heads ? 0 : head_dim;
  CheckAllHeads(reader, "head_dim", config->heads, config->head_width());
  if (config->heads % config->kv_heads != 0) {
    reader.Fail("num_key_value_heads",
                absl::StrCat("a divisor of num_attention_heads ", config->heads));
  }
}

}  // namespace

void CheckAllHeads(FieldReader& reader, const char* field, int64_t heads, int64_t head_dim) {
  if (heads * head_dim <= kWidest) return;
  reader.Fail(field, absl::StrCat("at most ", kWidest / heads, " with ", heads, " heads"));
}

void CountOrNone(FieldReader& reader, const char* field, int64_t low, int64_t high,
                 int64_t otherwise, int64_t* value) {
  *value = reader.Absent(field) ? otherwise : 0;
  reader.OptionalCount(field, low, high, value);
}

void ReadCommon(FieldReader& reader, const FamilyDefaults& defaults, DecoderConfig* config) {
  *config = LlamaDecoder(config->family);
  config->norm_epsilon = defaults.norm_epsilon;
  config->tied_head = defaults.tied_head;
  reader.Count("hidden_size", 1, kWidest, &config->dim);
  reader.Count("num_hidden_layers", 1, kMostLayers, &config->layers);
  ReadHeads(reader, defaults, config);
  reader.Count("intermediate_size", 1, kWidest, &config->hidden);
  CountOr(reader, "vocab_size", 2, kMostIds, defaults.vocab, &config->vocab);
  CountOr(reader, "max_position_embeddings", 1, kMostIds, defaults.max_seq, &config->max_seq);
  reader.OptionalFloat("rms_norm_eps", &config->norm_epsilon);
  reader.OptionalFloat("initializer_range", &config->initializer_range);
  reader.OptionalBool("tie_word_embeddings", &config->tied_head);
  reader.OneOf("is_causal", {true});
  ReadActivation(reader, defaults, config);
}

OrderedJson& WriteCommon(const DecoderConfig& config, const FamilyDefaults& defaults,
                         OrderedJson* to) {
  OrderedJson& json = *to;
  json["vocab_size"] = config.vocab;
  json["hidden_size"] = config.dim;
  json["intermediate_size"] = config.mlp_width();
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.key_value_heads();
  json["head_dim"] = config.head_width();
  json["max_position_embeddings"] = config.max_seq;
  json[defaults.activation_field] = config.mlp == MlpKind::kGeGlu ? kGelu : kSilu;
  json["rms_norm_eps"] = ShortestDecimal(config.norm_epsilon);
  json["initializer_range"] = ShortestDecimal(config.initializer_range);
  json["tie_word_embeddings"] = config.tied_head;
  json["attention_dropout"] = 0.0;
  // transformers' default ids may lie outside the vocabulary.
  for (const char* id : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[id] = nullptr;
  json["dtype"] = "float32";
  return json;
}

void ReadAttentionBias(FieldReader& reader, DecoderConfig* config) {
  bool bias = false;
  reader.OptionalBool("attention_bias", &bias);
  config->qkv_bias = config->output_bias = bias;
}

OrderedJson NumberOrNull(int64_t value) { return value > 0 ? OrderedJson(value) : nullptr; }

double ShortestDecimal(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  double result = value;
  std::from_chars(text, end.ptr, result);
  return result;
}

}  // namespace sluice
