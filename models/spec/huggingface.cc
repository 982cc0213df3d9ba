#include <charconv>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/fields.h"
#include "models/spec/json.h"
#include "models/spec/model_spec.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr char kModelType[] = "gpt2";
constexpr char kArchitecture[] = "GPT2LMHeadModel";
// Not known to transformers, which would compute layer norms and start biases that are not there.
constexpr char kOwnModelType[] = "sluice_gpt";
constexpr char kOwnArchitecture[] = "SluiceGPT";
constexpr int kGpt2Vocabulary = 50257;  // its last id is GPT-2's end-of-text
constexpr float kDefaultEpsilon = 1e-5f;

// What GPT2Config offers and sluice does not compute. Absent fields have the value that sluice does
// compute.
void CheckSupported(FieldReader& reader) {
  reader.Require("model_type");
  reader.OneOf("model_type", {kModelType, kOwnModelType});
  reader.OneOf("architectures", {Json::array({kArchitecture}), Json::array({kOwnArchitecture})});
  reader.OneOf("activation_function",
               {"gelu_new", "gelu_pytorch_tanh"});  // one function, two names
  reader.OneOf("scale_attn_weights", {true});
  reader.OneOf("scale_attn_by_inverse_layer_idx", {false});
  reader.OneOf("add_cross_attention", {false});
}

NormKind ReadNorm(FieldReader& reader) {
  std::string name = NormName(NormKind::kLayer);
  reader.OptionalString("norm", &name);
  const std::optional<NormKind> norm = ParseNorm(name);
  if (!norm) reader.Fail("norm", "\"layer\" or \"rms\"");
  return norm.value_or(NormKind::kLayer);
}

GptConfig ReadConfig(FieldReader& reader) {
  GptConfig config;
  config.norm_epsilon = kDefaultEpsilon;
  config.tied_head = true;  // transformers' default
  reader.Int("n_layer", &config.layers);
  reader.Int("n_embd", &config.dim);
  reader.Int("n_head", &config.heads);
  reader.Int("n_positions", &config.max_seq);
  reader.Int("vocab_size", &config.vocab);
  reader.OptionalInt("n_inner", &config.hidden);
  reader.OptionalFloat("layer_norm_epsilon", &config.norm_epsilon);
  reader.OptionalBool("tie_word_embeddings", &config.tied_head);
  config.norm = ReadNorm(reader);
  return config;
}

// The shortest decimal that reads back as `value`: 1e-05, where a plain cast would
// print 9.999999747378752e-06.
double ShortestDecimal(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  double result = value;
  std::from_chars(text, end.ptr, result);
  return result;
}

}  // namespace

bool IsGptModelType(absl::string_view model_type) {
  return model_type == kModelType || model_type == kOwnModelType;
}

absl::StatusOr<ModelSpec> ParseHuggingFaceConfig(absl::string_view json, absl::string_view name) {
  const absl::StatusOr<Json> parsed =
      ParseJsonObject(json, name, "expected a Hugging Face config.json");
  if (!parsed.ok()) return parsed.status();
  FieldReader reader(*parsed, name, kModelType);
  CheckSupported(reader);
  const ModelSpec spec{std::string(name), ReadConfig(reader)};
  if (!reader.status().ok()) return reader.status();
  const absl::Status status = ValidateSpec(spec);
  if (!status.ok()) return status;
  return spec;
}

std::string FormatHuggingFaceConfig(const ModelSpec& spec) {
  const GptConfig& config = *spec.gpt();
  nlohmann::ordered_json json;
  const bool own = config.norm != NormKind::kLayer;
  json["architectures"] = {own ? kOwnArchitecture : kArchitecture};
  json["model_type"] = own ? kOwnModelType : kModelType;
  json["n_layer"] = config.layers;
  json["n_embd"] = config.dim;
  json["n_head"] = config.heads;
  json["n_positions"] = config.max_seq;
  json["n_ctx"] = config.max_seq;
  json["vocab_size"] = config.vocab;
  json["n_inner"] = config.hidden > 0 ? nlohmann::ordered_json(config.hidden) : nullptr;
  json["activation_function"] = "gelu_new";
  json["layer_norm_epsilon"] = ShortestDecimal(config.norm_epsilon);
  if (own) json["norm"] = NormName(config.norm);
  json["tie_word_embeddings"] = config.tied_head;
  json["initializer_range"] = 0.02;
  for (const char* dropout : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) json[dropout] = 0.0;
  // transformers' default id lies outside a smaller vocabulary.
  const bool has_end_of_text = config.vocab >= kGpt2Vocabulary;
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    json[token] = has_end_of_text ? nlohmann::ordered_json(kGpt2Vocabulary - 1) : nullptr;
  }
  return json.dump(2) + "\n";
}

}  // namespace sluice
