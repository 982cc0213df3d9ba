#include "tools/terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace sluice {
namespace {

TEST(PrintableOutput, ColoursStayAndOtherEscapesDoNot) {
  const std::string table = "\x1b[1mstage\x1b[0m\n\x1b[38;5;214m  0\x1b[0m\tµs\n";
  EXPECT_EQ(ToPrintableOutput(table), table);
  EXPECT_EQ(ToPrintableOutput("\x1b[2Jx\x1b[1m"), "\uFFFD[2Jx\x1b[1m");
  EXPECT_EQ(ToPrintableOutput("\x1b]0;title\x07"), "\uFFFD]0;title\uFFFD");
  EXPECT_EQ(ToPrintableOutput("a\x1b["), "a\uFFFD[");
  EXPECT_EQ(ToPrintableOutput("a\x1b[31"), "a\uFFFD[31");
  EXPECT_EQ(ToPrintableOutput("\xc3\x1b[1m"), "\uFFFD\x1b[1m");
  EXPECT_EQ(ToPrintableOutput("0F0\r\n1F0\r\n"), "0F0\r\n1F0\r\n");
  EXPECT_EQ(ToPrintableOutput("a\rb\r\n\r"), "a\uFFFDb\r\n\uFFFD");
  EXPECT_EQ(ToPrintableOutput(""), "");
}

TEST(WrappedBehind, KeepsEveryWordWithinTheColumns) {
  EXPECT_EQ(WrappedBehind("  a  ", "one two three four five six", 30),
            "  a  one two three four five\n     six\n");
  EXPECT_EQ(WrappedBehind("µs ", "", 20), "µs \n");
  // A head that leaves little room: the rest goes below it, but further to the left.
  EXPECT_EQ(WrappedBehind("a head of twenty-two  ", "some words behind it", 40),
            "a head of twenty-two  some words behind\n        it\n");
  EXPECT_EQ(WrappedBehind("", "a-word-that-is-longer-than-the-line x", 20),
            "a-word-that-is-longer-than-the-line\n        x\n");
}

TEST(InLocale, IsAsciiWhereTheLocaleIs) {
  const auto shown = [](const char* locale) {
    setenv("LC_ALL", locale, 1);
    std::string text = InLocale("█▓ 3 µs · 4");
    unsetenv("LC_ALL");
    return text;
  };
  EXPECT_EQ(shown("C"), "#= 3 us - 4");
  EXPECT_EQ(shown("POSIX"), "#= 3 us - 4");
  EXPECT_EQ(shown("C.UTF-8"), "█▓ 3 µs · 4");
  EXPECT_EQ(shown("de_DE.utf8"), "█▓ 3 µs · 4");
}

}  // namespace
}  // namespace sluice
