#include "tools/terminal.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice
