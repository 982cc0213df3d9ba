#include "models/tokens/text/pattern.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/tokens/definition/definition.h"
#include "models/tokens/split.h"
#include "models/tokens/text/oniguruma.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

Words WordsOf(const std::string& text, const std::vector<Part>& parts) {
  Words words;
  for (const Part& part : parts) {
    if (part.begin < part.end) words.push_back(text.substr(part.begin, part.end - part.begin));
  }
  return words;
}

Words Split(const std::string& regex, const std::string& text,
            SplitBehavior behavior = SplitBehavior::kIsolated, bool invert = false) {
  const absl::StatusOr<Pattern> pattern = Pattern::Compile({regex, true});
  EXPECT_TRUE(pattern.ok()) << pattern.status();
  std::vector<Part> parts;
  if (!pattern.ok() || !pattern->FindAll(text, &parts).ok()) return {"failed"};
  ApplyBehavior(behavior, invert, &parts);
  return WordsOf(text, parts);
}

// What tokenizers 0.23.3 splits so, too (pre_tokenizers.Split).
TEST(Pattern, FindsWhatOnigurumaFinds) {
  EXPECT_THAT(Split("x*", "axxb"), ElementsAre("a", "xx", "b"));
  EXPECT_THAT(Split("x*", "axxb", SplitBehavior::kMergedWithPrevious), ElementsAre("axx", "b"));
  EXPECT_THAT(Split("x*", "axxb", SplitBehavior::kMergedWithNext), ElementsAre("a", "xxb"));
  EXPECT_THAT(Split("x*", "axxb", SplitBehavior::kContiguous), ElementsAre("a", "xx", "b"));
  EXPECT_THAT(Split(".", "a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_THAT(Split("$", "a\nb"), ElementsAre("a", "\nb"));
  EXPECT_THAT(Split("^", "a\nb"), ElementsAre("a\n", "b"));
  EXPECT_THAT(Split("\\v", "a\vb\nc"), ElementsAre("a", "\v", "b\nc"));
  EXPECT_THAT(Split("(?i:'s)", "x'\u017Fx'Sx"), ElementsAre("x", "'\u017F", "x", "'S", "x"));
  EXPECT_THAT(Split("\\s+(?!\\S)|\\s+", "a   b "), ElementsAre("a", "  ", " ", "b", " "));
  EXPECT_THAT(Split("a{1,2}?", "xaay"), ElementsAre("x", "a", "a", "y"));
  // Each for itself they are no sharp s and no ligature.
  EXPECT_THAT(Split("ss|(?i:s|t)s|(?i:s.s|s?s|[ss]|s\\.s)(?-i:s)", "\u00DFss"),
              ElementsAre("\u00DF", "ss"));
  EXPECT_THAT(Split("(?i:'s)|(?i:t)", "\uFB06'St"), ElementsAre("\uFB06", "'S", "t"));
  // White space is Unicode's White_Space, without U+180E.
  EXPECT_THAT(Split("\\s", "a\u180Eb\u0085c"), ElementsAre("a\u180Eb", "\u0085", "c"));
  EXPECT_THAT(Split("[^\\s]+", "a\u180E b"), ElementsAre("a\u180E", " ", "b"));
  // A letter and a number of Unicode 16.0.
  EXPECT_THAT(Split("\\p{L}+", "a\U000105C0-"), ElementsAre("a\U000105C0", "-"));
  EXPECT_THAT(Split("\\p{N}", "a\U00010D40"), ElementsAre("a", "\U00010D40"));
  // Scripts, not what several scripts share: U+3001, U+30FC and U+060C have script Common, or
  // another (Unicode 15, Scripts.txt).
  EXPECT_THAT(Split("\\p{Han}+", "\u4E2D\u3001\u6587"), ElementsAre("\u4E2D", "\u3001", "\u6587"));
  EXPECT_THAT(Split("\\p{hiragana}+", "\u3042\u30FC"), ElementsAre("\u3042", "\u30FC"));
  EXPECT_THAT(Split("[\\p{^Arabic}]+", "\u0627\u060C\u0628"),
              ElementsAre("\u0627", "\u060C", "\u0628"));
  EXPECT_THAT(Split("\\P{Latin}+", "ab\u00AA1"), ElementsAre("ab\u00AA", "1"));
}

TEST(Pattern, AnEmptyTextIsOnePart) {
  std::vector<Part> parts = {{1, 2, true}};
  EXPECT_TRUE(Pattern::Compile({"a", false})->FindAll("", &parts).ok());
  EXPECT_THAT(parts, ElementsAre(Part{0, 0, false}));
}

TEST(Pattern, ATextToLookForIsNoExpression) {
  for (const std::string text : {".", "\\E", "a|b", "(", "[a]", "#", " ", "é*"}) {
    const absl::StatusOr<Pattern> pattern = Pattern::Compile({text, false});
    ASSERT_TRUE(pattern.ok()) << pattern.status();
    std::vector<Part> parts;
    ASSERT_TRUE(pattern->FindAll("x" + text + "y", &parts).ok());
    EXPECT_THAT(parts, ElementsAre(Part{0, 1, false}, Part{1, 1 + text.size(), true},
                                   Part{1 + text.size(), 2 + text.size(), false}));
  }
}

// Of a group in a loop, each turn can be taken back; PCRE2's machine code has a small stack.
TEST(Pattern, LongTextsNeedNoStack) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_THAT(Split("\\s+(?!\\S)|\\s+", spaces + "a"), ElementsAre(spaces.substr(1), " ", "a"));
  const std::string letters(100'000, 'a');
  EXPECT_EQ(Split("(?:a|b)+d|[ac]+", letters + "c"), Words{letters + "c"});
}

TEST(Oniguruma, RefusesWhatMeansSomethingElseToPcre2) {
  for (const std::string pattern : {"\\w+",
                                    "\\bx",
                                    "\\h",
                                    "\\R",
                                    "\\X",
                                    "a\\K",
                                    "(a)\\1",
                                    "[a[b]]",
                                    "[a&&b]",
                                    "[[:alpha:]]",
                                    "(?<n>a)",
                                    "(?x)a",
                                    "(?m:.)",
                                    "(*UCP)a",
                                    "a{,2}",
                                    "a{1,2}+",
                                    "{",
                                    "[]a]",
                                    "[a",
                                    "\\",
                                    "\\p{L",
                                    "\\pL",
                                    "\\x{110000000}",
                                    "\\xe9",
                                    "(?i:é)",
                                    "\\p{L&}",
                                    "a{2}?",
                                    "(?i:ss)",
                                    "(?i:Ss)",
                                    "(?i:ast)",
                                    "(?i:ff|a)",
                                    "(?i:fi)",
                                    "(?i:FL)",
                                    "(?i:s(?:s))",
                                    "(?i:(?:s)s)",
                                    "(?i:s{1}s)",
                                    "(?i:s)(?i:t)",
                                    "(?i:\\x73\\x{74})",
                                    "(?i:\\xdf)",
                                    "(?i:[\\u00df])",
                                    "(?i:[a-\\u00ff])"}) {
    const absl::StatusOr<std::string> pcre2 = TranslateOniguruma(pattern);
    EXPECT_EQ(pcre2.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(pcre2.status().message()), HasSubstr("is not supported")) << pattern;
  }
}

TEST(Oniguruma, WhatPcre2CannotCompileIsRefused) {
  for (const std::string pattern : {"(", ")", "*", "\\p{Nothing}", "\\x{D800}", "(?<=a+)b"}) {
    const absl::StatusOr<Pattern> compiled = Pattern::Compile({pattern, true});
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
  }
}

TEST(Oniguruma, KeepsTheSplitsOfPublishedTokenizers) {
  // Llama 3's, and Qwen 2's with \p{N} alone.
  const std::string llama3 =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  EXPECT_THAT(Split(llama3, "I'LL say 12345,\n\n  x"),
              ElementsAre("I", "'LL", " say", " ", "123", "45", ",\n\n", " ", " x"));
}

TEST(ApplyBehavior, IsThatOfHuggingFace) {
  // pre_tokenizers.Split("-", ...) of "the-final--countdown": the library's documentation.
  const std::string text = "the-final--countdown";
  EXPECT_THAT(Split("-", text, SplitBehavior::kRemoved), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(Split("-", text, SplitBehavior::kIsolated),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(Split("-", text, SplitBehavior::kMergedWithPrevious),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(Split("-", text, SplitBehavior::kMergedWithNext),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(Split("-", text, SplitBehavior::kContiguous),
              ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(Split("-", text, SplitBehavior::kRemoved, /*invert=*/true),
              ElementsAre("-", "-", "-"));
}

}  // namespace
}  // namespace sluice
