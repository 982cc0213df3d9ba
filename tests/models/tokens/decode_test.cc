#include "models/tokens/decode.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

using Steps = std::vector<DecoderStep>;
using Words = std::vector<std::string>;

const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

// Llama 2's, which has every kind of waiting.
Steps Llama2() {
  return {ReplaceDecoder{"▁", " "}, ByteFallbackDecoder{}, FuseDecoder{}, StripDecoder{' ', 1, 0}};
}

// What comes out after each word, and in the end.
Words Stream(const Steps& steps, const Words& words) {
  DecoderChain chain(steps, /*has_decoder=*/true);
  Words texts;
  for (const std::string& word : words) {
    chain.Take(word);
    texts.push_back(chain.TakeText());
    EXPECT_EQ(FindInvalidUtf8(texts.back()), absl::string_view::npos);
  }
  chain.Finish();
  texts.push_back(chain.TakeText());
  return texts;
}

std::string Decode(const Steps& steps, const Words& words) {
  std::string text;
  for (const std::string& part : Stream(steps, words)) text += part;
  return text;
}

TEST(DecoderChain, WithoutADecoderSpacesStandBetween) {
  DecoderChain chain({}, /*has_decoder=*/false);
  for (const char* word : {"a", "b", "", "c"}) chain.Take(word);
  chain.Finish();
  EXPECT_EQ(chain.TakeText(), "a b  c");
}

TEST(DecoderChain, ByteLevelTakesBytesTogether) {
  const Steps steps = {ByteLevelDecoder{}};
  EXPECT_EQ(Decode(steps, {"Ġthe", "Ċ", "ðŁĺĢ"}), " the\n😀");
  EXPECT_EQ(Stream(steps, {"ðŁ", "ĺ", "Ģ!", "x"}), (Words{"", "", "😀!", "x", ""}));
  EXPECT_EQ(Stream(steps, {"ðŁ", "a"}), (Words{"", kBad + "a", ""}));
  EXPECT_EQ(Stream(steps, {"a", "ðŁ"}), (Words{"a", "", kBad}));
  // A word with a character outside the alphabet is what it says.
  EXPECT_EQ(Decode(steps, {"<a b>", "中"}), "<a b>中");
  EXPECT_EQ(Decode(steps, {}), "");
}

TEST(DecoderChain, ByteFallbackJudgesARowOfBytesAsAWhole) {
  const Steps steps = {ByteFallbackDecoder{}};
  EXPECT_EQ(Decode(steps, {"<0xE5>", "<0x8f>", "<0xAB>", "a"}), "叫a");
  EXPECT_EQ(Decode(steps, {"<0x61>", "<0xE5>"}), kBad + kBad);
  EXPECT_EQ(Stream(steps, {"<0xE5>", "<0x8F>", "<0xAB>", "a"}), (Words{"", "", "", "叫a", ""}));
  EXPECT_EQ(Stream(steps, {"a", "<0x62>"}), (Words{"a", "", "b"}));
  EXPECT_EQ(Decode(steps, {"<0xZZ>", "<0x1>", "<0x100>"}), "<0xZZ><0x1><0x100>");
}

TEST(DecoderChain, StripTakesOnlySoManyFromTheEnds) {
  EXPECT_EQ(Decode({StripDecoder{'H', 1, 0}}, {"Hey", " friend!", "HHH"}), "ey friend!HH");
  EXPECT_EQ(Decode({StripDecoder{'y', 0, 1}}, {"Hey", " friend!", "yyy"}), "He friend!yy");
  EXPECT_EQ(Decode({StripDecoder{' ', 2, 2}}, {"   a   "}), " a ");
  EXPECT_EQ(Decode({StripDecoder{' ', 3, 3}}, {"  ", "b"}), "b");
  // What may still be the end of the fused word waits.
  EXPECT_EQ(Stream({FuseDecoder{}, StripDecoder{' ', 1, 1}}, {" a ", "b", " ", " "}),
            (Words{"a", " b", "", " ", ""}));
}

TEST(DecoderChain, MetaspaceDropsItInTheFirstWordAlone) {
  EXPECT_EQ(Decode({MetaspaceDecoder{"▁", true}}, {"▁Hey", "▁friend▁!"}), "Hey friend !");
  EXPECT_EQ(Decode({MetaspaceDecoder{"▁", false}}, {"▁Hey", "▁friend"}), " Hey friend");
}

TEST(DecoderChain, Llama2) {
  EXPECT_EQ(Decode(Llama2(), {"▁In", "▁the", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"}), "In the😀");
  EXPECT_EQ(Stream(Llama2(), {"▁", "▁In", "▁the"}), (Words{"", " In", " the", ""}));
}

// Nothing that has come out depends on what comes after it.
TEST(DecoderChain, WhatHasComeOutNeverChanges) {
  std::mt19937 random(3);
  const Words words = {"▁the",   "▁",  "a",  "<0xE5>", "<0x8F>", "<0xAB>",
                       "<0x20>", "ðŁ", "ĺĢ", " ",      ""};
  const std::vector<Steps> chains = {
      Llama2(),
      {ByteLevelDecoder{}},
      {MetaspaceDecoder{"▁", true}},
      {ByteFallbackDecoder{}, StripDecoder{' ', 1, 1}, FuseDecoder{}, StripDecoder{' ', 2, 2}},
      {FuseDecoder{}, ReplaceDecoder{"a▁", "b"}, ByteLevelDecoder{}, FuseDecoder{}}};
  for (int round = 0; round < 2000; ++round) {
    const Steps& steps = chains[random() % chains.size()];
    Words row;
    for (size_t i = random() % 12; i > 0; --i) row.push_back(words[random() % words.size()]);
    std::string so_far;
    const Words stream = Stream(steps, row);
    for (size_t taken = 0; taken < row.size(); ++taken) {
      so_far += stream[taken];
      const Words first(row.begin(), row.begin() + static_cast<int64_t>(taken) + 1);
      ASSERT_EQ(Decode(steps, first).substr(0, so_far.size()), so_far);
    }
  }
}

}  // namespace
}  // namespace sluice
