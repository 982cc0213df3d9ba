#include "pipeline/checkpoint/files/peft_config.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

const char* const kModule = "model.layers.0.self_attn.q_proj";

std::vector<std::string> Names() { return {AdapterA(kModule), AdapterB(kModule)}; }

nlohmann::json Usual() {
  return {{"peft_type", "LORA"}, {"r", 8},         {"lora_alpha", 16},
          {"lora_dropout", 0.1}, {"bias", "none"}, {"target_modules", {"q_proj", "v_proj"}}};
}

absl::StatusOr<Lora> Parse(const nlohmann::json& json) {
  return ParsePeftConfig(json.dump(), "adapter_config.json", Names());
}

TEST(PeftConfigTest, ReadsWhatItWrites) {
  for (const bool stable : {false, true}) {
    const Lora lora = {
        .rank = 4, .alpha = 0.3, .dropout = 0.05, .rank_stabilised = stable, .targets = {"q_proj"}};
    const auto read = ParsePeftConfig(PeftConfig(lora, Names(), false), "file", Names());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, lora);
  }
}

TEST(PeftConfigTest, ReadsTargetsOfEveryKind) {
  nlohmann::json json = Usual();
  EXPECT_EQ(Parse(json)->targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  json["target_modules"] = "all-linear";
  EXPECT_TRUE(Parse(json)->targets.empty());
  json["target_modules"] = ".*attn.*";  // matched by PEFT: the modules that have tensors
  EXPECT_EQ(Parse(json)->targets, (std::vector<std::string>{kModule}));
  EXPECT_FALSE(ParsePeftConfig(json.dump(), "file", {}).ok());
}

TEST(PeftConfigTest, FieldsThatAreOffArePassedOver) {
  nlohmann::json json = Usual();
  json.update({{"use_dora", false},
               {"modules_to_save", nullptr},
               {"rank_pattern", nlohmann::json::object()},
               {"layers_to_transform", nullptr},
               {"init_lora_weights", true},
               {"inference_mode", true},
               {"revision", nullptr}});
  EXPECT_TRUE(Parse(json).ok());
}

TEST(PeftConfigTest, RefusesByName) {
  const std::vector<std::pair<std::string, nlohmann::json>> wrong = {
      {"peft_type", "IA3"},
      {"r", 0},
      {"r", 1.5},
      {"r", "8"},
      {"r", nullptr},
      {"r", 65537},
      {"lora_alpha", 0},
      {"lora_alpha", "16"},
      {"lora_dropout", 1},
      {"lora_dropout", "0"},
      {"use_rslora", 1},
      {"target_modules", nlohmann::json::array()},
      {"target_modules", {3}},
      {"target_modules", {""}},
      {"target_modules", nullptr},
      {"bias", "all"},
      {"use_dora", true},
      {"modules_to_save", {"lm_head"}},
      {"rank_pattern", {{"q_proj", 4}}},
      {"alpha_pattern", {{"q_proj", 4}}},
      {"layers_to_transform", {0}},
      {"layers_to_transform", 0},
      {"init_lora_weights", "loftq"},
      {"init_lora_weights", "pissa"},
  };
  for (const auto& [field, value] : wrong) {
    nlohmann::json json = Usual();
    json[field] = value;
    const auto lora = Parse(json);
    ASSERT_FALSE(lora.ok()) << field << " " << value;
    EXPECT_THAT(std::string(lora.status().message()),
                HasSubstr("adapter_config.json: field '" + field + "'"));
  }
  EXPECT_FALSE(ParsePeftConfig("[]", "file", {}).ok());
}

}  // namespace
}  // namespace sluice
