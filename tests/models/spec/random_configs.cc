#include "tests/models/spec/random_configs.h"

#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "models/spec/families/families.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// Numbers from the engine itself: the library's distributions differ between libraries.
class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int Below(int end) { return static_cast<int>(engine_() % static_cast<uint32_t>(end)); }
  bool Often() { return Below(4) != 0; }
  bool Coin() { return Below(2) == 0; }
  Json Of(const std::vector<Json>& values) {
    return values[static_cast<size_t>(Below(static_cast<int>(values.size())))];
  }
  // Adds the field, or leaves it out.
  void Maybe(Json* json, const char* field, const std::vector<Json>& values) {
    if (Coin()) (*json)[field] = Of(values);
  }

 private:
  std::mt19937 engine_;
};

Json RandomRotation(Dice& dice, const char* type_field) {
  const std::string type = dice.Of({"default", "linear", "llama3", "yarn"});
  Json rope = {{type_field, type}};
  if (type == "default") return rope;
  rope["factor"] = dice.Of({1.0, 2.0, 2.5, 8.0});
  if (type == "linear") return rope;
  rope["original_max_position_embeddings"] = dice.Of({16, 64, 100});
  if (type == "llama3") {
    rope["low_freq_factor"] = dice.Of({1.0, 1.5});
    rope["high_freq_factor"] = dice.Of({4.0, 6.5});
    return rope;
  }
  dice.Maybe(&rope, "beta_fast", {16, 32.0});
  dice.Maybe(&rope, "beta_slow", {1, 2.0});
  dice.Maybe(&rope, "attention_factor", {1.25, 0.9});
  dice.Maybe(&rope, "truncate", {true, false});
  if (dice.Coin()) rope.update({{"mscale", 0.7}, {"mscale_all_dim", 1.0}});
  return rope;
}

void AddRope(Dice& dice, Json* json) {
  dice.Maybe(json, "rope_theta", {500000, 1e6, 12345.5});
  if (dice.Coin())
    (*json)["rope_scaling"] = RandomRotation(dice, dice.Coin() ? "type" : "rope_type");
  if (dice.Coin()) (*json)["rope_parameters"] = RandomRotation(dice, "rope_type");
  if (json->contains("rope_parameters")) {
    dice.Maybe(&(*json)["rope_parameters"], "rope_theta", {20000.0, 3e6});
  }
}

void AddRopesOfGemma3(Dice& dice, Json* json) {
  dice.Maybe(json, "rope_theta", {500000.0, 12345.5});
  dice.Maybe(json, "rope_local_base_freq", {9000.0, 20000.0});
  if (dice.Coin()) {
    (*json)["rope_scaling"] = RandomRotation(dice, "rope_type");
  } else if (dice.Coin()) {
    Json& both = (*json)["rope_parameters"];
    both["full_attention"] = RandomRotation(dice, "rope_type");
    both["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", 7000.0}};
  }
}

void AddLayerTypes(Dice& dice, Json* json) {
  if (dice.Coin()) return;
  Json types = Json::array();
  for (int i = 0; i < (*json)["num_hidden_layers"]; ++i) {
    types.push_back(dice.Of({"full_attention", "sliding_attention"}));
  }
  (*json)["layer_types"] = types;
}

void AddQwenWindow(Dice& dice, Json* json) {
  const bool use = dice.Coin();
  (*json)["use_sliding_window"] = use;
  dice.Maybe(json, "max_window_layers", {0, 1, 3, 40});
  dice.Maybe(json, "sliding_window", {8, 32});
  if (use) AddLayerTypes(dice, json);
}

void AddGemma(Dice& dice, const std::string& family, Json* json) {
  dice.Maybe(json, "attention_bias", {true, false});
  dice.Maybe(json, "use_bidirectional_attention", {false, nullptr});
  if (family == "gemma") {
    return dice.Maybe(json, "hidden_act", {"gelu", "gelu_pytorch_tanh", "silu"});
  }
  dice.Maybe(json, "hidden_activation", {"gelu_pytorch_tanh", "silu"});
  dice.Maybe(json, "query_pre_attn_scalar", {1, 24, 144, 168, 256});
  if (family == "gemma2") dice.Maybe(json, "attn_logit_softcapping", {nullptr, 50.0, 0.1});
  dice.Maybe(json, "final_logit_softcapping", {nullptr, 30.0, 7.3});
  dice.Maybe(json, "sliding_window", {8, 512});
  AddLayerTypes(dice, json);
  if (family == "gemma3_text") dice.Maybe(json, "sliding_window_pattern", {1, 2, 3, 6});
}

Json RandomGpt(Dice& dice, const std::string& family) {
  Json json = {{"model_type", family}, {"n_layer", 1 + dice.Below(3)},
               {"n_head", 3},          {"n_embd", 3 * (1 + dice.Below(9))},
               {"n_positions", 64},    {"vocab_size", 50 + dice.Below(50)}};
  dice.Maybe(&json, "n_inner", {nullptr, 7, 96});
  dice.Maybe(&json, "layer_norm_epsilon", {1e-6, 1e-5});
  dice.Maybe(&json, "initializer_range", {0.01, 0.02});
  dice.Maybe(&json, "tie_word_embeddings", {true, false});
  if (family != kGpt2ModelType) json["norm"] = "rms";
  return json;
}

Json RandomShape(Dice& dice, const std::string& family) {
  const int heads = dice.Of({8, 32});
  Json json = {{"model_type", family},
               {"hidden_size", heads * 2 * (1 + dice.Below(8))},
               {"intermediate_size", 16 + dice.Below(100)},
               {"num_hidden_layers", 1 + dice.Below(7)},
               {"num_attention_heads", heads},
               {"num_key_value_heads", dice.Of({1, 2, 8})},
               {"vocab_size", 50 + dice.Below(50)},
               {"max_position_embeddings", 128}};
  // The defaults of these families divide 32.
  if (heads == 32 && dice.Coin()) json.erase("num_key_value_heads");
  dice.Maybe(&json, "head_dim", {2, 16, 64});
  dice.Maybe(&json, "rms_norm_eps", {1e-5, 1e-6, 3e-6});
  dice.Maybe(&json, "initializer_range", {0.01, 0.05});
  dice.Maybe(&json, "tie_word_embeddings", {true, false});
  return json;
}

}  // namespace

std::vector<std::string> WrittenFamilies() {
  std::vector<std::string> names;
  for (const Family& family : Families()) {
    if (family.write != nullptr) names.emplace_back(family.model_type);
  }
  return names;
}

Json RandomConfig(const std::string& family, uint32_t seed) {
  Dice dice(seed);
  if (family == kGpt2ModelType || family == kOwnModelType) return RandomGpt(dice, family);
  Json json = RandomShape(dice, family);
  family == "gemma3_text" ? AddRopesOfGemma3(dice, &json) : AddRope(dice, &json);
  if (absl::StartsWith(family, "gemma")) {
    AddGemma(dice, family, &json);
    return json;
  }
  dice.Maybe(&json, "hidden_act", {"silu", "gelu_pytorch_tanh", "gelu_new"});
  if (absl::StartsWith(family, "qwen")) AddQwenWindow(dice, &json);
  if (family == "mistral" && dice.Coin()) {
    dice.Maybe(&json, "sliding_window", {nullptr, 8, 64});
  } else if (family == "mistral") {
    json["sliding_window"] = 8;
    AddLayerTypes(dice, &json);
  }
  if (family == "llama") dice.Maybe(&json, "mlp_bias", {true, false});
  if (family == "llama" || family == "qwen3") dice.Maybe(&json, "attention_bias", {true, false});
  return json;
}

}  // namespace sluice
