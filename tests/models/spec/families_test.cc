// What each family computes with, of the fields of its config.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "models/spec/decoder.h"
#include "models/spec/model_config.h"
#include "tests/models/spec/hub_configs.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

absl::StatusOr<ModelSpec> Parse(const Json& json) {
  return ParseModelConfig(json.dump(), "config.json");
}

// The text part of google/gemma-3-4b-it's config.json, which leaves out what are defaults.
constexpr char kGemma34b[] = R"({
  "architectures": ["Gemma3ForConditionalGeneration"],
  "model_type": "gemma3",
  "eos_token_id": [1, 106],
  "mm_tokens_per_image": 256,
  "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024},
  "torch_dtype": "bfloat16",
  "vision_config": {"hidden_size": 1152, "vision_use_head": false}
})";

TEST(FamiliesTest, ReadsTheTextPartOfGemma3) {
  const auto spec = ParseModelConfig(kGemma34b, "config.json");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const DecoderConfig& config = *spec->decoder();
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_width(), 256);
  EXPECT_EQ(config.vocab, 262208);
  EXPECT_EQ(config.max_seq, 131072);
  EXPECT_TRUE(config.tied_head && config.norm_offset && config.qk_norm);
  EXPECT_EQ(config.norms, 4);
  EXPECT_EQ(config.attention_scale, 0.0625f);
  EXPECT_EQ(config.attention_soft_cap, 0);
  EXPECT_EQ(config.embedding_scale, std::sqrt(2560.0f));
  EXPECT_EQ(config.rope, (Rope{.theta = 1e6, .scaling = RopeScaling::kLinear, .factor = 8}));
  for (int64_t block = 0; block < 34; ++block) {
    EXPECT_EQ(config.HasWindow(block), block % 6 != 5) << block;
    EXPECT_EQ(config.RopeOf(block), block % 6 != 5 ? Rope{} : config.rope) << block;
  }
}

Json Shape(const std::string& family) {
  return {{"model_type", family},           {"hidden_size", 64},        {"intermediate_size", 96},
          {"num_hidden_layers", 4},         {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"max_position_embeddings", 512}, {"vocab_size", 100}};
}

DecoderConfig Read(Json json, const Json& more) {
  json.update(more);
  const auto spec = Parse(json);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec->decoder() : DecoderConfig{};
}

std::vector<bool> Windows(const DecoderConfig& config) {
  std::vector<bool> windows;
  for (int64_t block = 0; block < config.layers; ++block) {
    windows.push_back(config.HasWindow(block));
  }
  return windows;
}

// transformers' Qwen2Config, MistralConfig, Gemma2Config.
TEST(FamiliesTest, BlocksHaveTheWindowsThatTransformersGivesThem) {
  using testing::ElementsAre;
  const auto read = [](const char* family, const Json& more) {
    return Windows(Read(Shape(family), more));
  };
  const Json layers = {"full_attention", "sliding_attention", "sliding_attention",
                       "full_attention"};
  EXPECT_THAT(read("llama", {{"sliding_window", 8}}), ElementsAre(false, false, false, false));
  EXPECT_THAT(read("mistral", Json::object()), ElementsAre(true, true, true, true));
  EXPECT_EQ(Read(Shape("mistral"), Json::object()).window, 4096);
  EXPECT_THAT(read("mistral", {{"sliding_window", nullptr}}),
              ElementsAre(false, false, false, false));
  EXPECT_THAT(read("qwen2", {{"sliding_window", 8}, {"max_window_layers", 2}}),
              ElementsAre(false, false, false, false));
  EXPECT_THAT(read("qwen3",
                   {{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 2}}),
              ElementsAre(false, false, true, true));
  EXPECT_THAT(
      read("qwen2", {{"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", layers}}),
      ElementsAre(false, true, true, false));
  EXPECT_THAT(read("gemma2", Json::object()), ElementsAre(true, false, true, false));
  EXPECT_THAT(read("mistral", {{"sliding_window", 8}}), ElementsAre(true, true, true, true));
  EXPECT_THAT(read("mistral", {{"sliding_window", 8}, {"layer_types", layers}}),
              ElementsAre(false, true, true, false));
  EXPECT_THAT(read("gemma3_text", {{"layer_types", layers}}),
              ElementsAre(false, true, true, false));
}

TEST(FamiliesTest, GemmaHasItsCapsAndScales) {
  const DecoderConfig gemma2 = Read(Shape("gemma2"), {{"query_pre_attn_scalar", 144}});
  EXPECT_EQ(gemma2.attention_scale, 1.0f / 12);
  EXPECT_EQ(gemma2.attention_soft_cap, 50);
  EXPECT_EQ(gemma2.final_soft_cap, 30);
  const DecoderConfig none = Read(Shape("gemma2"), {{"final_logit_softcapping", nullptr}});
  EXPECT_EQ(none.final_soft_cap, 0);
  const DecoderConfig gemma = Read(Shape("gemma"), {{"hidden_act", "gelu"}});
  EXPECT_EQ(gemma.mlp, MlpKind::kGeGlu);
  EXPECT_EQ(gemma.embedding_scale, 8);
  EXPECT_EQ(gemma.attention_scale, 0);
  EXPECT_EQ(gemma.head_width(), 256);
  EXPECT_TRUE(gemma.norm_offset && gemma.tied_head);
}

// As in standardize_rope_params of transformers 5.24.
TEST(FamiliesTest, RopesAreReadAsTransformersReadsThem) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  EXPECT_EQ(Read(Shape("llama"), {{"rope_parameters", llama3}}).rope.original_max_seq, 64);
  const DecoderConfig outside =
      Read(Shape("llama"), {{"rope_parameters", llama3}, {"original_max_position_embeddings", 8}});
  EXPECT_EQ(outside.rope.original_max_seq, 8);
  const DecoderConfig both =
      Read(Shape("llama"), {{"rope_scaling", Json::object()},
                            {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}}}});
  EXPECT_EQ(both.rope.scaling, RopeScaling::kLinear);
}

TEST(FamiliesTest, Gpt2HasNoOtherNumbersByOtherNames) {
  const Json gpt2 = {{"model_type", "gpt2"}, {"n_layer", 2},      {"n_embd", 8},
                     {"n_head", 4},          {"n_positions", 16}, {"vocab_size", 50}};
  EXPECT_EQ(Read(gpt2, {{"num_attention_heads", 4}, {"hidden_size", 8}}).heads, 4);
  Json other = gpt2;
  other["num_attention_heads"] = 2;
  EXPECT_THAT(std::string(Parse(other).status().message()),
              AllOf(HasSubstr("field 'num_attention_heads' is 2"), HasSubstr("expected 4")));
}

TEST(FamiliesTest, BiasesAreThoseOfTheFamily) {
  const Json asked = {{"attention_bias", true}, {"mlp_bias", true}};
  const DecoderConfig llama = Read(Shape("llama"), asked);
  EXPECT_TRUE(llama.qkv_bias && llama.output_bias && llama.mlp_bias);
  const DecoderConfig qwen3 = Read(Shape("qwen3"), asked);
  EXPECT_TRUE(qwen3.qkv_bias && qwen3.output_bias && !qwen3.mlp_bias);
  const DecoderConfig qwen2 = Read(Shape("qwen2"), asked);
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.output_bias && !qwen2.mlp_bias);
  const DecoderConfig mistral = Read(Shape("mistral"), asked);
  EXPECT_TRUE(!mistral.qkv_bias && !mistral.output_bias && !mistral.mlp_bias);
}

struct Refused {
  const char* family;
  Json more;
  const char* message;
};

TEST(FamiliesTest, WhatIsNotComputedIsRefusedByName) {
  const Refused cases[] = {
      {"llama",
       {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}},
       "field 'rope_scaling.rope_type' is \"dynamic\""},
      {"llama",
       {{"rope_scaling", {{"type", "longrope"}}}},
       "field 'rope_scaling.type' is \"longrope\""},
      {"qwen2",
       {{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {8, 4, 4}}}}},
       "field 'rope_scaling.mrope_section' is [8,4,4]"},
      {"llama",
       {{"rope_parameters", {{"rope_type", "proportional"}}}},
       "field 'rope_parameters.rope_type' is \"proportional\""},
      {"llama", {{"partial_rotary_factor", 0.5}}, "field 'partial_rotary_factor' is 0.5"},
      {"llama",
       {{"rope_parameters", {{"partial_rotary_factor", 0.25}}}},
       "field 'rope_parameters.partial_rotary_factor' is 0.25"},
      {"llama", {{"rope_scaling", {{"type", "linear"}}}}, "field 'rope_scaling.factor' is missing"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}},
       "field 'rope_scaling.factor' is 0.5"},
      {"llama", {{"rope_scaling", "linear"}}, "field 'rope_scaling' is \"linear\""},
      {"llama",
       {{"rope_scaling",
         {{"rope_type", "llama3"},
          {"factor", 8},
          {"low_freq_factor", 4},
          {"high_freq_factor", 4}}}},
       "field 'rope_scaling.high_freq_factor' is 4"},
      {"llama", {{"rope_theta", "high"}}, "field 'rope_theta' is \"high\""},
      {"llama", {{"rope_theta", 0}}, "field 'rope_theta' is 0"},
      {"qwen3",
       {{"rope_parameters", {{"full_attention", Json::object()}}}},
       "field 'rope_parameters.full_attention' is {}"},
      {"gemma3_text",
       {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 8.0}}}},
       "field 'rope_parameters.rope_type' is \"linear\""},
      {"llama", {{"hidden_act", "relu"}}, "field 'hidden_act' is \"relu\""},
      {"llama", {{"hidden_act", "gelu"}}, "field 'hidden_act' is \"gelu\""},
      {"gemma2", {{"hidden_activation", "gelu"}}, "field 'hidden_activation' is \"gelu\""},
      {"llama", {{"pretraining_tp", 2}}, "field 'pretraining_tp' is 2"},
      {"gemma",
       {{"use_bidirectional_attention", true}},
       "field 'use_bidirectional_attention' is true"},
      {"qwen2", {{"layer_types", {"full_attention"}}}, "field 'layer_types' is"},
      {"qwen2", {{"layer_types", "full_attention"}}, "field 'layer_types' is"},
      {"gemma3_text",
       {{"layer_types",
         {"chunked_attention", "full_attention", "full_attention", "full_attention"}}},
       "expected full_attention and sliding_attention alone"},
      {"qwen3",
       {{"layer_types",
         {"sliding_attention", "full_attention", "full_attention", "full_attention"}}},
       "expected a sliding_window where a block has sliding_attention"},
      {"gemma2", {{"sliding_window", nullptr}}, "field 'sliding_window' is null"},
      {"gemma2", {{"attn_logit_softcapping", 0}}, "field 'attn_logit_softcapping' is 0"},
      {"gemma3_text", {{"attn_logit_softcapping", 30}}, "transformers computes Gemma 3 without it"},
      {"llama", {{"is_causal", false}}, "field 'is_causal' is false"},
      {"gemma2", {{"query_pre_attn_scalar", 0}}, "field 'query_pre_attn_scalar' is 0"},
      {"mistral", {{"num_key_value_heads", 3}}, "field 'num_key_value_heads' is 3"},
      {"llama", {{"head_dim", 15}}, "the width of a head is 15"},
      {"llama", {{"initializer_range", -1}}, "initializer_range is -1"},
  };
  for (const Refused& refused : cases) {
    Json json = Shape(refused.family);
    json.update(refused.more);
    const absl::Status status = Parse(json).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << refused.message;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("config.json"), HasSubstr(refused.message)));
  }
}

TEST(PatchModelConfigTest, KeepsEveryFieldInItsPlace) {
  for (const HubConfig& config : HubConfigs()) {
    const auto spec = ParseModelConfig(config.json, config.path);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto patched = PatchModelConfig(config.json, config.path, *spec);
    ASSERT_TRUE(patched.ok()) << patched.status();
    OrderedJson expected = OrderedJson::parse(config.json);
    expected["torch_dtype"] = "float32";
    EXPECT_EQ(OrderedJson::parse(*patched).dump(), expected.dump()) << config.path;
  }
}

// Else transformers would look for weights of the part that sees pictures.
TEST(PatchModelConfigTest, LeavesTheTextOfAModelThatAlsoSeesPictures) {
  const OrderedJson whole = OrderedJson::parse(kGemma34b);
  const ModelSpec gemma = *ParseModelConfig(kGemma34b, "config.json");
  const auto patched = PatchModelConfig(kGemma34b, "config.json", gemma);
  ASSERT_TRUE(patched.ok()) << patched.status();
  const OrderedJson text = OrderedJson::parse(*patched);
  OrderedJson expected = whole["text_config"];
  expected["model_type"] = "gemma3_text";
  expected["architectures"] = {"Gemma3ForCausalLM"};
  expected["eos_token_id"] = whole["eos_token_id"];
  expected["torch_dtype"] = "float32";
  EXPECT_EQ(Json::parse(text.dump()), Json::parse(expected.dump()));
  const auto again = ParseModelConfig(*patched, "config.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->config, gemma.config);
}

TEST(PatchModelConfigTest, ChangesWhatTheModelHasOtherwise) {
  Json json = Shape("llama");
  json.update({{"rope_theta", 5e5}, {"mine", {1, 2}}, {"dtype", "bfloat16"}});
  ModelSpec spec = *Parse(json);
  auto& config = std::get<DecoderConfig>(spec.config);
  config.max_seq = 2048;
  config.tied_head = true;
  config.rope.scaling = RopeScaling::kLinear;
  config.rope.factor = 4;
  const auto patched = PatchModelConfig(json.dump(), "config.json", spec);
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_TRUE(ParseModelConfig(*patched, "config.json")->config == spec.config);
  json.update(
      {{"max_position_embeddings", 2048},
       {"tie_word_embeddings", true},
       {"dtype", "float32"},
       {"rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 5e5}, {"factor", 4.0}}}});
  EXPECT_EQ(Json::parse(*patched), json);
}

TEST(PatchModelConfigTest, LeavesWhatIsTrueAsItIs) {
  Json json = Shape("llama");
  json["dtype"] = "float32";
  const std::string text = json.dump(7) + "\n \n";
  EXPECT_EQ(*PatchModelConfig(text, "config.json", *Parse(json)), text);
}

TEST(PatchModelConfigTest, RefusesWhatItCannotDescribe) {
  const Json json = Shape("llama");
  ModelSpec spec = *Parse(json);
  std::get<DecoderConfig>(spec.config).final_soft_cap = 30;
  EXPECT_THAT(std::string(PatchModelConfig(json.dump(), "config.json", spec).status().message()),
              HasSubstr("config.json: describes another model than 'config.json'"));
  EXPECT_FALSE(PatchModelConfig("{", "config.json", spec).ok());
}

}  // namespace
}  // namespace sluice
