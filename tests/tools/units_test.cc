#include "models/spec/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(Units, AreReadAsPeopleTypeThem) {
  EXPECT_EQ(*ParseBytes("80GiB"), int64_t{80} << 30);
  EXPECT_EQ(*ParseBytes(" 512 MB "), 512'000'000);
  EXPECT_EQ(*ParseBytes("1.5kB"), 1500);
  EXPECT_EQ(*ParseBytes("1e9"), 1'000'000'000);
  EXPECT_DOUBLE_EQ(*ParseBandwidth("12GB/s"), 12e9);
  EXPECT_DOUBLE_EQ(*ParseBandwidth("1.5e10"), 1.5e10);
  EXPECT_DOUBLE_EQ(*ParseSeconds("5us"), 5e-6);
  EXPECT_DOUBLE_EQ(*ParseSeconds("5 µs"), 5e-6);
  EXPECT_DOUBLE_EQ(*ParseSeconds("1.5ms"), 1.5e-3);
  EXPECT_DOUBLE_EQ(*ParseSeconds("0"), 0);
  EXPECT_DOUBLE_EQ(*ParseSeconds("2e-3s"), 2e-3);
  EXPECT_DOUBLE_EQ(*ParseSeconds("5m"), 300);
  EXPECT_DOUBLE_EQ(*ParseSeconds("5min"), 300);
  EXPECT_DOUBLE_EQ(*ParseSeconds("1h30m1.5s"), 5401.5);
}

TEST(Units, RefuseWhatIsNotAQuantity) {
  for (const char* text : {"", "GiB", "80XiB", "-5GiB", "0GiB", "nan", "inf", "80GiB/s", "8 0GiB",
                           "1e400", "80GiBGiB", "0x10", "1e18GiB", ".", "5e"}) {
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    EXPECT_FALSE(bytes.ok()) << text;
    EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("GiB"));
  }
  for (const char* text : {"0GB/s", "1e-320", "0.9", "1e-10GB/s"})
    EXPECT_FALSE(ParseBandwidth(text).ok()) << text;
  EXPECT_DOUBLE_EQ(*ParseBandwidth("1"), 1);
  EXPECT_FALSE(ParseBandwidth("12GB").ok());
  EXPECT_FALSE(ParseSeconds("-1s").ok());
  for (const char* text : {"1h30", "30 1s", "1h-30m", "1h 30", "1e308m1e308s", "s", "1.2.3s"})
    EXPECT_FALSE(ParseSeconds(text).ok()) << text;
  EXPECT_DOUBLE_EQ(*ParseTimeLimit("1us"), 1e-6);
  EXPECT_DOUBLE_EQ(*ParseTimeLimit("1e308"), 1e308);
  for (const char* text : {"0", "0s", "1e-320", "0.9ns", "soon"})
    EXPECT_FALSE(ParseTimeLimit(text).ok()) << text;
}

TEST(Units, ArePrintedWithThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(1024.0 * 1024 * 1024 * 12.44), "12.4 GiB");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(0.99999), "1.00 s");
  EXPECT_EQ(FormatSeconds(90), "90.0 s");
  EXPECT_EQ(FormatSeconds(4.2e-6), "4.20 µs");
  EXPECT_EQ(FormatCount(124e6), "124 M");
  EXPECT_EQ(FormatCount(7), "7");
  EXPECT_EQ(FormatFlopRate(164.6e12), "165 TFLOP/s");
  EXPECT_EQ(FormatFlopRate(2.5e9), "2.50 GFLOP/s");
  EXPECT_EQ(FormatShare(0.1234), "12.3 %");
  EXPECT_EQ(ShortestNumber(0.1), "0.1");
  EXPECT_EQ(ShortestNumber(32), "32");
  EXPECT_EQ(ShortestNumber(1.0 / 3), "0.3333333333333333");
}

// What is printed is read back within what three digits can say.
TEST(Units, ReadBackWhatTheyPrint) {
  for (double bytes = 1; bytes < 1e15; bytes *= 1.37) {
    EXPECT_NEAR(static_cast<double>(*ParseBytes(FormatBytes(bytes))), bytes, 0.006 * bytes + 1)
        << FormatBytes(bytes);
  }
  for (double seconds = 1e-9; seconds < 1e4; seconds *= 1.37) {
    EXPECT_NEAR(*ParseSeconds(FormatSeconds(seconds)), seconds, 0.006 * seconds)
        << FormatSeconds(seconds);
  }
}

}  // namespace
}  // namespace sluice
