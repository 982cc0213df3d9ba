#include "models/tokens/added_tokens.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

AddedToken Token(int32_t id, const std::string& content) {
  AddedToken token;
  token.id = id;
  token.content = content;
  return token;
}

// "a[7:<x>]b": what lies between, and each token with its id.
std::string Found(const std::vector<AddedToken>& tokens, const std::string& text) {
  AddedTokenFinder finder;
  for (const AddedToken& token : tokens) EXPECT_TRUE(finder.Add(token.content, token).ok());
  std::vector<Section> sections;
  finder.Find(text, &sections);
  std::string shown;
  for (const Section& section : sections) {
    const std::string part = text.substr(section.begin, section.end - section.begin);
    shown += section.token < 0 ? part : "[" + std::to_string(section.token) + ":" + part + "]";
  }
  return shown;
}

TEST(AddedTokenFinder, TakesTheLeftmostAndOfThoseTheLongest) {
  const std::vector<AddedToken> tokens = {Token(1, "<a"), Token(2, "<a>"), Token(3, "a>b"),
                                          Token(4, "bc")};
  EXPECT_EQ(Found(tokens, "x<a>bc"), "x[2:<a>][4:bc]");
  EXPECT_EQ(Found(tokens, "<a<a"), "[1:<a][1:<a]");
  EXPECT_EQ(Found(tokens, "a>bc"), "[3:a>b]c");
  EXPECT_EQ(Found(tokens, ""), "");
  EXPECT_EQ(Found({}, "text"), "text");
}

TEST(AddedTokenFinder, ASingleWordStandsAlone) {
  AddedToken word = Token(1, "foo");
  word.single_word = true;
  EXPECT_EQ(Found({word}, "foo foo. foo_ xfoo éfoo foo\u0301 foo"),
            "[1:foo] [1:foo]. foo_ xfoo éfoo foo\u0301 [1:foo]");
  // The search goes on behind one that was dropped.
  EXPECT_EQ(Found({word, Token(2, "o-")}, "xfoo-"), "xfoo-");
}

TEST(AddedTokenFinder, StripsTakeWhiteSpaceAlong) {
  AddedToken left = Token(1, "<l>"), right = Token(2, "<r>");
  left.left_strip = true;
  right.right_strip = true;
  EXPECT_EQ(Found({left, right}, "a \u00a0<l> <r>\n b"), "a[1: \u00a0<l>] [2:<r>\n ]b");
  // What one has taken is no longer there for the next.
  EXPECT_EQ(Found({left, right}, "<r>  <l>"), "[2:<r>  ][1:<l>]");
}

// As tokenizers 0.23.3 does.
TEST(AddedTokenFinder, WhiteSpaceThatAnotherHasTakenIsNoToken) {
  AddedToken both = Token(1, "\n"), right = Token(1, "\n");
  both.left_strip = both.right_strip = right.right_strip = true;
  EXPECT_EQ(Found({both}, "a\n \n \nb"), "a[1:\n \n \n]b");
  EXPECT_EQ(Found({both}, "\n\n"), "[1:\n\n]");
  EXPECT_EQ(Found({right}, "a\n\nb"), "a[1:\n\n][1:\n]b");
}

TEST(AddedTokenFinder, RefusesAnEmptyTextAndATextThatIsThereAlready) {
  AddedTokenFinder finder;
  EXPECT_THAT(std::string(finder.Add("", Token(1, "x")).message()), HasSubstr("nothing of"));
  EXPECT_TRUE(finder.Add("x", Token(1, "x")).ok());
  EXPECT_THAT(std::string(finder.Add("x", Token(2, "X")).message()), HasSubstr("'X' and 'x'"));
}

}  // namespace
}  // namespace sluice
