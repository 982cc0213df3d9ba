#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "models/spec/families/common.h"
#include "models/spec/families/family.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int kGpt2Vocabulary = 50257;  // its last id is GPT-2's end-of-text

// What GPT2Config offers and sluice does not describe. Absent fields have the value that it does.
void RefuseOtherGpts(FieldReader& reader) {
  reader.OneOf("architectures",
               {Json::array({kGpt2Architecture}), Json::array({kOwnArchitecture})});
  reader.OneOf("activation_function",
               {"gelu_new", "gelu_pytorch_tanh"});  // one function, two names
  reader.OneOf("scale_attn_weights", {true});
  reader.OneOf("scale_attn_by_inverse_layer_idx", {false});
  reader.OneOf("add_cross_attention", {false});
  reader.OneOf("is_causal", {true});
}

// transformers takes the other families' names of these, too, and where a file has both, those.
void RefuseOtherNames(FieldReader& reader, const DecoderConfig& config) {
  const std::pair<const char*, int64_t> names[] = {{"num_hidden_layers", config.layers},
                                                   {"hidden_size", config.dim},
                                                   {"num_attention_heads", config.heads},
                                                   {"max_position_embeddings", config.max_seq}};
  for (const auto& [name, value] : names) reader.OneOf(name, {value});
}

// "norm" is sluice's own field; layer norms where it is absent.
NormKind ReadNorm(FieldReader& reader) {
  std::string name = NormName(NormKind::kLayer);
  reader.OptionalString("norm", &name);
  const std::optional<NormKind> norm = ParseNorm(name);
  if (!norm) reader.Fail("norm", "\"layer\" or \"rms\"");
  return norm.value_or(NormKind::kLayer);
}

}  // namespace

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
  reader.OptionalFloat("initializer_range", &config->initializer_range);
  reader.OptionalBool("tie_word_embeddings", &config->tied_head);
  config->norm = ReadNorm(reader);
  RefuseOtherNames(reader, *config);
}

void WriteGpt(const DecoderConfig& config, OrderedJson* to) {
  OrderedJson& json = *to;
  json["n_layer"] = config.layers;
  json["n_embd"] = config.dim;
  json["n_head"] = config.heads;
  json["n_positions"] = config.max_seq;
  json["n_ctx"] = config.max_seq;
  json["vocab_size"] = config.vocab;
  json["n_inner"] = NumberOrNull(config.hidden);
  json["activation_function"] = "gelu_new";
  json["layer_norm_epsilon"] = ShortestDecimal(config.norm_epsilon);
  if (config.norm != NormKind::kLayer) json["norm"] = NormName(config.norm);
  json["tie_word_embeddings"] = config.tied_head;
  json["initializer_range"] = ShortestDecimal(config.initializer_range);
  for (const char* dropout : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) json[dropout] = 0.0;
  // transformers' default id lies outside a smaller vocabulary.
  const bool has_end_of_text = config.vocab >= kGpt2Vocabulary;
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    json[token] = has_end_of_text ? OrderedJson(kGpt2Vocabulary - 1) : nullptr;
  }
}

}  // namespace sluice
