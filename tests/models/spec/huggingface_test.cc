#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/spec/decoder.h"
#include "models/spec/model_config.h"
#include "models/spec/model_spec.h"
#include "models/spec/presets.h"
#include "tests/models/spec/hub_configs.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// The architecture's part of openai-community/gpt2's config.json.
Json Gpt2Json() {
  return Json::parse(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257})");
}

absl::StatusOr<ModelSpec> Parse(const Json& json) {
  return ParseModelConfig(json.dump(), "config.json");
}

TEST(HuggingFaceConfigTest, ReadsGpt2AsThePreset) {
  const auto spec = Parse(Gpt2Json());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->config == PresetModel("gpt2")->config);
}

TEST(HuggingFaceConfigTest, WhatIsWrittenReadsBackTheSame) {
  DecoderConfig odd{.layers = 3,
                    .dim = 40,
                    .heads = 5,
                    .vocab = 99,
                    .max_seq = 17,
                    .hidden = 72,
                    .tied_head = true,
                    .norm_epsilon = 3e-6f};
  DecoderConfig rms = odd;
  rms.norm = NormKind::kRms;
  for (const ModelSpec& spec :
       {ModelSpec{"odd", odd}, ModelSpec{"rms", rms}, *PresetModel("gpt2-xl"),
        *PresetModel("char-gpt"), *PresetModel("mlp")}) {
    const std::string text = FormatModelConfig(spec);
    const auto back = ParseModelConfig(text, "config.json");
    ASSERT_TRUE(back.ok()) << back.status() << text;
    EXPECT_TRUE(back->config == spec.config) << text;
  }
}

TEST(HuggingFaceConfigTest, WritesTheFieldsThatTransformersReads) {
  const Json json = Json::parse(FormatModelConfig(*PresetModel("gpt2")));
  const Json original = Gpt2Json();
  for (const char* field : {"activation_function", "architectures", "bos_token_id", "eos_token_id",
                            "layer_norm_epsilon", "model_type", "n_embd", "n_head", "n_layer",
                            "n_positions", "vocab_size", "initializer_range"}) {
    EXPECT_EQ(json[field], original[field]) << field;
  }
  EXPECT_EQ(json["tie_word_embeddings"], true);
  EXPECT_TRUE(json["n_inner"].is_null());
  EXPECT_FALSE(json.contains("norm"));
}

TEST(HuggingFaceConfigTest, WhatTransformersWouldComputeOtherwiseIsNotCalledAGpt2) {
  const Json json = Json::parse(FormatModelConfig({"rms", DecoderConfig{.norm = NormKind::kRms}}));
  EXPECT_EQ(json["norm"], "rms");
  EXPECT_NE(json["model_type"], "gpt2");
  EXPECT_NE(json["architectures"], Json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(Parse(json)->decoder()->norm, NormKind::kRms);
}

TEST(HuggingFaceConfigTest, ReadsTheNormOfAnyGpt) {
  Json json = Gpt2Json();
  for (const char* type : {"gpt2", "sluice_gpt"}) {
    json["model_type"] = type;
    json.erase("norm");
    EXPECT_EQ(Parse(json)->decoder()->norm, NormKind::kLayer);
    json["norm"] = "layer";
    EXPECT_EQ(Parse(json)->decoder()->norm, NormKind::kLayer);
    json["norm"] = "rms";
    EXPECT_EQ(Parse(json)->decoder()->norm, NormKind::kRms);
  }
}

struct BadField {
  const char* field;
  Json value;
};

TEST(HuggingFaceConfigTest, AWrongOrUnsupportedFieldIsNamed) {
  const std::vector<BadField> cases = {
      {"architectures", Json::array({"GPT2ForSequenceClassification"})},
      {"n_layer", "twelve"},
      {"n_layer", 12.5},
      {"n_embd", 18446744073709551615u},
      {"n_embd", -9223372036854775807},
      {"n_head", true},
      {"n_positions", Json::object()},
      {"vocab_size", Json::array()},
      {"n_inner", "wide"},
      {"activation_function", "relu"},
      {"layer_norm_epsilon", "small"},
      {"tie_word_embeddings", 1},
      {"scale_attn_weights", false},
      {"scale_attn_by_inverse_layer_idx", true},
      {"add_cross_attention", true},
      {"norm", "batch"},
      {"norm", 1},
  };
  for (const BadField& bad : cases) {
    Json json = Gpt2Json();
    json[bad.field] = bad.value;
    const absl::Status status = Parse(json).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("config.json: "), HasSubstr(bad.field), HasSubstr("expected"),
                      HasSubstr(bad.value.dump())));
  }
}

TEST(HuggingFaceConfigTest, AMissingFieldIsNamed) {
  for (const char* field : {"n_layer", "n_embd", "n_head", "n_positions", "vocab_size"}) {
    Json json = Gpt2Json();
    json.erase(field);
    const absl::Status status = Parse(json).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("config.json: "), HasSubstr(field), HasSubstr("missing")));
  }
}

TEST(HuggingFaceConfigTest, AnImpossibleModelIsRefused) {
  Json json = Gpt2Json();
  json["n_head"] = 7;
  EXPECT_THAT(std::string(Parse(json).status().message()), HasSubstr("not a multiple of heads 7"));
}

TEST(HuggingFaceConfigTest, WhatIsNoJsonObjectIsRefused) {
  for (const char* text : {"", "{", "[1, 2]", "\xff\xfe", "12"}) {
    const absl::Status status = ParseModelConfig(text, "config.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("config.json: not a JSON object"));
  }
}

TEST(HuggingFaceConfigTest, AnUnknownOrMissingModelTypeListsTheKnownOnes) {
  Json json = Gpt2Json();
  json["model_type"] = "mamba";
  const absl::Status unknown = Parse(json).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()),
              AllOf(HasSubstr("config.json: field 'model_type' is \"mamba\", which is not known"),
                    HasSubstr("expected gpt2, sluice_gpt, llama, ")));
  json["model_type"] = 12;
  EXPECT_THAT(std::string(Parse(json).status().message()), HasSubstr("'model_type' is 12, which"));
  json.erase("model_type");
  EXPECT_THAT(std::string(Parse(json).status().message()),
              HasSubstr("config.json: field 'model_type' is missing; expected gpt2, "));
}

TEST(HuggingFaceConfigTest, ReadsEveryConfigOfTheHub) {
  const std::vector<HubConfig> configs = HubConfigs();
  if (configs.empty()) GTEST_SKIP() << "no config.json in " << SharedFolder();
  for (const auto& [path, json] : configs) {
    const auto spec = ParseModelConfig(json, path);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->name, path);
    EXPECT_EQ(spec->decoder()->family, Json::parse(json)["model_type"].get<std::string>());
  }
}

TEST(HuggingFaceConfigTest, MlpWidthsThatAreNoNumbersAreRefused) {
  for (const char* widths : {"12", "[2, -1]", "[2, 1e300]", "[2, \"3\"]", "null"}) {
    const std::string text = std::string(R"({"model_type": "mlp", "widths": )") + widths + "}";
    const absl::Status status = ParseModelConfig(text, "config.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("config.json: field 'widths' is "));
  }
}

}  // namespace
}  // namespace sluice
