#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "models/spec/model_spec.h"
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
  return ParseHuggingFaceConfig(json.dump(), "config.json");
}

void ExpectSameModel(const GptConfig& a, const GptConfig& b) {
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.dim, b.dim);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.vocab, b.vocab);
  EXPECT_EQ(a.max_seq, b.max_seq);
  EXPECT_EQ(a.mlp_width(), b.mlp_width());
  EXPECT_EQ(a.tied_head, b.tied_head);
  EXPECT_EQ(a.norm_epsilon, b.norm_epsilon);
  EXPECT_EQ(a.norm, b.norm);
}

TEST(HuggingFaceConfigTest, ReadsGpt2AsThePreset) {
  const auto spec = Parse(Gpt2Json());
  ASSERT_TRUE(spec.ok()) << spec.status();
  ExpectSameModel(*spec->gpt(), *PresetModel("gpt2")->gpt());
}

TEST(HuggingFaceConfigTest, WhatIsWrittenReadsBackTheSame) {
  GptConfig odd{.layers = 3,
                .dim = 40,
                .heads = 5,
                .vocab = 99,
                .max_seq = 17,
                .hidden = 72,
                .tied_head = true,
                .norm_epsilon = 3e-6f};
  GptConfig rms = odd;
  rms.norm = NormKind::kRms;
  for (const ModelSpec& spec : {ModelSpec{"odd", odd}, ModelSpec{"rms", rms},
                                *PresetModel("gpt2-xl"), *PresetModel("char-gpt")}) {
    const std::string text = FormatHuggingFaceConfig(spec);
    const auto back = ParseHuggingFaceConfig(text, "config.json");
    ASSERT_TRUE(back.ok()) << back.status() << text;
    ExpectSameModel(*back->gpt(), *spec.gpt());
  }
}

TEST(HuggingFaceConfigTest, WritesTheFieldsThatTransformersReads) {
  const Json json = Json::parse(FormatHuggingFaceConfig(*PresetModel("gpt2")));
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
  const Json json =
      Json::parse(FormatHuggingFaceConfig({"rms", GptConfig{.norm = NormKind::kRms}}));
  EXPECT_EQ(json["norm"], "rms");
  EXPECT_NE(json["model_type"], "gpt2");
  EXPECT_NE(json["architectures"], Json::array({"GPT2LMHeadModel"}));
  EXPECT_TRUE(IsGptModelType(json["model_type"].get<std::string>()));
  EXPECT_TRUE(IsGptModelType("gpt2"));
  EXPECT_FALSE(IsGptModelType("llama"));
}

TEST(HuggingFaceConfigTest, ReadsTheNormOfAnyGpt) {
  Json json = Gpt2Json();
  for (const char* type : {"gpt2", "sluice_gpt"}) {
    json["model_type"] = type;
    json.erase("norm");
    EXPECT_EQ(Parse(json)->gpt()->norm, NormKind::kLayer);
    json["norm"] = "layer";
    EXPECT_EQ(Parse(json)->gpt()->norm, NormKind::kLayer);
    json["norm"] = "rms";
    EXPECT_EQ(Parse(json)->gpt()->norm, NormKind::kRms);
  }
}

struct BadField {
  const char* field;
  Json value;
};

TEST(HuggingFaceConfigTest, AWrongOrUnsupportedFieldIsNamed) {
  const std::vector<BadField> cases = {
      {"model_type", "llama"},
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
  for (const char* field :
       {"model_type", "n_layer", "n_embd", "n_head", "n_positions", "vocab_size"}) {
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
    const absl::Status status = ParseHuggingFaceConfig(text, "config.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("config.json: not a JSON object"));
  }
}

TEST(HuggingFaceConfigTest, OtherModelsOfTheHubAreRefusedByModelType) {
  const std::filesystem::path folder = SharedFolder() / "data" / "configs";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no " << folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const absl::Status status = ParseHuggingFaceConfig(text.str(), entry.path().string()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(entry.path().string()), HasSubstr("'model_type'")));
  }
}

}  // namespace
}  // namespace sluice
