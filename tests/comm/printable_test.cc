#include "comm/printable.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// nlohmann's serializer refuses what is not UTF-8: an independent judge.
bool IsUtf8(const std::string& text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

TEST(PrintableText, Utf8PassesUnchanged) {
  for (const std::string text :
       {"In the beginning\n\tGod", "naïve — Größe", "漢字", "🙂 x", ""}) {
    EXPECT_EQ(ToPrintable(text), text);
  }
}

TEST(PrintableText, ControlsAndBrokenCharactersAreReplaced) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(ToPrintable("a\x1B[31mb"), "a" + bad + "[31mb");
  EXPECT_EQ(ToPrintable("\xC3"), bad);            // cut off
  EXPECT_EQ(ToPrintable("\xC3z"), bad + "z");     // the z is not swallowed
  EXPECT_EQ(ToPrintable("\xC0\x80"), bad + bad);  // overlong
  EXPECT_EQ(ToPrintable("\xC2\x9B"), bad);        // C1: another escape sequence
  EXPECT_EQ(ToPrintable(std::string("\0", 1) + "\x7F"), bad + bad);
}

TEST(PrintableText, WhateverComesIsUtf8) {
  std::mt19937 random(1);
  const std::string leads = "az\n\x1B\x80\xBF\xC2\xE0\xED\xEF\xF0\xF4\xFF";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    for (int i = 0; i < 6; ++i) {
      bytes += random() % 2 == 0 ? leads[random() % leads.size()] : static_cast<char>(random());
    }
    const std::string shown = ToPrintable(bytes);
    ASSERT_TRUE(IsUtf8(shown));
    for (char c : shown) {
      const auto byte = static_cast<uint8_t>(c);
      ASSERT_TRUE(byte >= 0x20 || c == '\n' || c == '\t');
    }
    const bool harmless = bytes.find('\xC2') == std::string::npos &&
                          std::all_of(bytes.begin(), bytes.end(), [](char c) {
                            const auto byte = static_cast<uint8_t>(c);
                            return c == '\n' || c == '\t' || (byte >= 0x20 && byte != 0x7F);
                          });
    ASSERT_TRUE(!harmless || !IsUtf8(bytes) || shown == bytes);
  }
}

}  // namespace
}  // namespace sluice
