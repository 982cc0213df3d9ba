#include "models/spec/adaptation.h"

#include <random>
#include <regex>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(ParseLoraTest, ReadsEveryKeyAndKeepsDefaults) {
  const auto lora = ParseLora("r=4,alpha=8.5,dropout=0,targets=q_proj,v_proj,rslora=1");
  ASSERT_TRUE(lora.ok()) << lora.status();
  EXPECT_EQ(
      *lora,
      (Lora{.rank = 4, .alpha = 8.5, .rank_stabilised = true, .targets = {"q_proj", "v_proj"}}));
  EXPECT_DOUBLE_EQ(lora->scale(), 8.5 / 2);
  EXPECT_EQ(*ParseLora("r=8"), (Lora{.rank = 8}));
  EXPECT_DOUBLE_EQ(ParseLora("r=8,alpha=4")->scale(), 0.5);
  EXPECT_TRUE(ParseLora("targets=all-linear")->targets.empty());
}

TEST(ParseLoraTest, RefusesWhatItCannotUseByName) {
  for (const char* text :
       {"", "r", "r=0", "r=-1", "r=1.5", "r=65537", "r=99999999999999999999", "alpha=0",
        "alpha=nan", "alpha=inf", "alpha=", "rslora=2", "rslora=true", "dropout=2",
        "targets=", "targets=q_proj,,v_proj", "targets=lm_head", "rank=3", "r=4,"}) {
    const auto lora = ParseLora(text);
    ASSERT_FALSE(lora.ok()) << text;
    EXPECT_EQ(lora.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(lora.status().message()), HasSubstr("--lora")) << text;
    EXPECT_THAT(std::string(lora.status().message()), HasSubstr("expected")) << text;
  }
}

// What has no key or no value is shown as it was given.
TEST(ParseLoraTest, ShowsWhatWasGiven) {
  for (const char* text : {"8", "r", "r=4,16"}) {
    const std::string message(ParseLora(text).status().message());
    EXPECT_THAT(message, HasSubstr(absl::StrCat("--lora ", text, ": ")));
    EXPECT_THAT(message, HasSubstr("has no value; expected a list such as r=16,alpha=32"));
  }
}

TEST(ParseLoraTest, RefusesWhatContradictsItself) {
  for (const char* text : {"r=2,r=3", "targets=q_proj,targets=v_proj", "targets=all-linear,q_proj",
                           "targets=q_proj,all-linear"}) {
    EXPECT_FALSE(ParseLora(text).ok()) << text;
  }
}

TEST(LoraTest, TargetsTheLastPartsOfNames) {
  const Lora lora = {.targets = {"q_proj", "mlp.up_proj", "model.layers.1.mlp.down_proj"}};
  EXPECT_TRUE(lora.Targets("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(lora.Targets("model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(lora.Targets("model.layers.1.mlp.down_proj"));
  EXPECT_FALSE(lora.Targets("model.layers.0.mlp.down_proj"));
  EXPECT_FALSE(lora.Targets("model.layers.0.self_attn.xq_proj"));
  EXPECT_TRUE(Lora{}.Targets("anything"));
}

TEST(MatchesPatternTest, AgreesWithRegularExpressions) {
  std::mt19937 random(7);
  const auto draw = [&random](const std::string& letters) {
    std::string text;
    for (size_t length = random() % 7; text.size() < length;) {
      text += letters[random() % letters.size()];
    }
    return text;
  };
  int matches = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string pattern = draw("ab*?"), text = draw("ab");
    std::string expression;
    for (const char c : pattern) {
      expression += c == '*' ? std::string(".*") : std::string(1, c == '?' ? '.' : c);
    }
    const bool expected = std::regex_match(text, std::regex(expression));
    ASSERT_EQ(MatchesPattern(pattern, text), expected) << pattern << " on " << text;
    matches += expected ? 1 : 0;
  }
  EXPECT_GT(matches, 1000);
}

}  // namespace
}  // namespace sluice
