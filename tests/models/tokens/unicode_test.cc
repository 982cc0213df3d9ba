#include "models/tokens/text/unicode.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "models/tokens/text/later_characters.h"

namespace sluice {
namespace {

constexpr size_t kNone = absl::string_view::npos;

std::string Utf8(char32_t code_point) {
  std::string text;
  AppendUtf8(code_point, &text);
  return text;
}

std::string Normalized(NormalizationForm form, const std::string& text) {
  std::string normalized;
  return Normalize(form, text, &normalized) ? normalized : text;
}

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    const std::string text = Utf8(code);
    size_t at = 0;
    ASSERT_TRUE(NextCodePoint(text, &at) == code) << uint32_t{code};
    ASSERT_EQ(at, text.size());
    ASSERT_EQ(FindInvalidUtf8(text), kNone) << uint32_t{code};
    ASSERT_EQ(LastCodePoint("a" + text), 1u);
  }
}

TEST(Utf8, FindsTheFirstByteThatIsNotUtf8) {
  EXPECT_EQ(FindInvalidUtf8(""), kNone);
  EXPECT_EQ(FindInvalidUtf8("ab\x80"), 2u);                // no first byte
  EXPECT_EQ(FindInvalidUtf8("a\xC3"), 1u);                 // cut off
  EXPECT_EQ(FindInvalidUtf8("\xC0\x80"), 0u);              // overlong
  EXPECT_EQ(FindInvalidUtf8("\xE0\x9F\xBF"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("\xC3\xA9\xED\xA0\x80"), 2u);  // a surrogate
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u);      // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("\xF0\x8F\xBF\xBF"), 0u);      // overlong
}

TEST(MoveValidUtf8, ReplacesMaximalSubparts) {
  // The Unicode standard, section 3.9, table 3-11: eight replacements.
  std::string bytes = "\x41\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41";
  std::string text;
  MoveValidUtf8(/*more_to_come=*/false, &bytes, &text);
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(text, "A" + bad + bad + bad + bad + "A");
  EXPECT_EQ(bytes, "");
}

TEST(MoveValidUtf8, KeepsACharacterThatIsNotWholeYet) {
  std::string bytes = "a\xF0\x9F\x98";
  std::string text;
  MoveValidUtf8(/*more_to_come=*/true, &bytes, &text);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(bytes, "\xF0\x9F\x98");
  bytes += "\x80z";
  MoveValidUtf8(/*more_to_come=*/true, &bytes, &text);
  EXPECT_EQ(text, "a\xF0\x9F\x98\x80z");
  EXPECT_EQ(bytes, "");
}

TEST(Characters, ClassesAreUnicodes) {
  for (const uint32_t space : {0x09, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x3000}) {
    EXPECT_TRUE(IsWhitespace(space)) << space;
  }
  for (const uint32_t other : {0x1C, 0x180E, 0x200B, 0xFEFF}) {
    EXPECT_FALSE(IsWhitespace(other)) << other;
  }
  for (const uint32_t letter : {0x61, 0xE9, 0x2B0, 0x4E00, 0x105C0}) {
    EXPECT_TRUE(IsLetter(letter)) << letter;
  }
  for (const uint32_t other : {0x30, 0x5F, 0x301, 0x24B6, 0x3002}) {
    EXPECT_FALSE(IsLetter(other)) << other;
  }
  for (const uint32_t number : {0x30, 0xB2, 0xBD, 0x2167, 0x10D40, 0x11DE0}) {
    EXPECT_TRUE(IsNumber(number)) << number;
  }
  EXPECT_FALSE(IsNumber(U'a'));
  for (const uint32_t word : {0x61, 0x5F, 0x301, 0x4E00, 0x200D, 0x24B6, 0x105C0}) {
    EXPECT_TRUE(IsWordCharacter(word)) << word;
  }
  EXPECT_FALSE(IsWordCharacter(U'-'));
  EXPECT_FALSE(IsWordCharacter(0x2460));
}

TEST(ToLowercase, IsRustsOfEachCharacter) {
  EXPECT_EQ(ToLowercase("ABCd Ünï ΑΣ"), "abcd ünï ασ");  // no final sigma
  EXPECT_EQ(ToLowercase("\xC4\xB0"), "i\xCC\x87");       // U+0130: an i and U+0307
  EXPECT_EQ(ToLowercase(Utf8(0x10D50)), Utf8(0x10D70));  // Unicode 16.0
  EXPECT_EQ(ToLowercase(Utf8(0xA7DC)), Utf8(0x19B));
}

TEST(NormalizeTest, FormsAreThoseOfAnnex15) {
  EXPECT_EQ(Normalized(NormalizationForm::kNfc, "e\u0301 \u1100\u1161\u11A8"), "\u00E9 \uAC01");
  EXPECT_EQ(Normalized(NormalizationForm::kNfd, "\u00E9 \uAC01"), "e\u0301 \u1100\u1161\u11A8");
  EXPECT_EQ(Normalized(NormalizationForm::kNfkc, "\uFB01 \u00BD"), "fi 1\u20442");
  EXPECT_EQ(Normalized(NormalizationForm::kNfkd, "\u00C5\uFF21"), "A\u030AA");
  EXPECT_EQ(Normalized(NormalizationForm::kNfc, "a\u0307\u0323"), "\u1EA1\u0307");
}

TEST(NormalizeTest, SaysWhetherATextChanges) {
  std::string normalized = "untouched";
  EXPECT_FALSE(Normalize(NormalizationForm::kNfc, "plain", &normalized));
  EXPECT_EQ(normalized, "untouched");
}

// tokenizers 0.23.3 does neither.
TEST(NormalizeTest, CharactersAfterUnicode9StayAsTheyAre) {
  EXPECT_EQ(Normalized(NormalizationForm::kNfkd, Utf8(0x32FF)), Utf8(0x32FF));  // 12.1
  const std::string marks = "a" + Utf8(0x07FD) + "\u0334";  // 11.0, class 220; class 1 goes first
  EXPECT_EQ(Normalized(NormalizationForm::kNfd, marks), marks);
}

TEST(LaterCharacters, HaveStandInsOfTheSameLength) {
  int later = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    const char32_t stand_in = StandInOf(code);
    if (stand_in == code) continue;
    ++later;
    ASSERT_EQ(Utf8(stand_in).size(), Utf8(code).size()) << uint32_t{code};
    ASSERT_TRUE(StandInOf(stand_in) == stand_in) << uint32_t{code};
  }
  // Unicode 15.0 added 4,489 characters, 15.1 added 627, 16.0 added 5,185; one changed its category.
  EXPECT_EQ(later, 4489 + 627 + 5185 + 1);
}

TEST(LaterCharacters, AreReplacedInACopy) {
  std::string copy = "untouched";
  EXPECT_FALSE(ReplaceLaterCharacters("plain 中文 😀", &copy));
  EXPECT_EQ(copy, "untouched");
  EXPECT_TRUE(ReplaceLaterCharacters("a" + Utf8(0x105C0) + "b", &copy));
  EXPECT_EQ(copy, "a" + Utf8(0x10280) + "b");
}

}  // namespace
}  // namespace sluice
