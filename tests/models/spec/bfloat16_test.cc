#include "models/spec/bfloat16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sluice {
namespace {

// Finite and infinite values of all magnitudes and both signs, and those around every tie.
std::vector<float> SomeFloats() {
  std::vector<float> floats = {0.0f,
                               -0.0f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::denorm_min()};
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (uint32_t high = 0; high < 0x10000U; high += 7) {
    for (const uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      floats.push_back(std::bit_cast<float>(high << 16U | low));
  }
  std::erase_if(floats, [](float value) { return std::isnan(value); });
  return floats;
}

TEST(SplitFloatTest, IsMadeAgainBitByBit) {
  for (const float value : SomeFloats()) {
    EXPECT_EQ(std::bit_cast<uint32_t>(SplitFloat::Of(value).value()),
              std::bit_cast<uint32_t>(value))
        << value;
  }
}

TEST(SplitFloatTest, TheHighHalfIsTheNearestBFloat16) {
  for (const float value : SomeFloats()) {
    const uint16_t high = SplitFloat::Of(value).high, even = ToBFloat16(value);
    if ((std::bit_cast<uint32_t>(value) & 0xffffU) != 0x8000U) {
      EXPECT_EQ(high, even) << value;
    } else {  // a tie
      EXPECT_GE(std::abs(FromBFloat16(high)), std::abs(value));
      EXPECT_LE(high - even, 1) << value;
    }
  }
}

TEST(SplitFloatTest, NaNStaysOne) {
  for (const uint32_t bits : {0x7fc00000U, 0x7fffffffU, 0xffffffffU, 0x7f800001U, 0xff80ffffU}) {
    const SplitFloat parts = SplitFloat::Of(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(FromBFloat16(parts.high)));
    EXPECT_TRUE(std::isnan(parts.value()));
  }
}

TEST(SplitFloatsTest, WritesTheLowHalvesOfSomeElements) {
  std::vector<float> values;
  for (int i = 0; i < 10; ++i) values.push_back(0.1f * static_cast<float>(i));
  std::vector<uint16_t> high(10), low(4, 1);
  for (int64_t first = 0; first < 10; first += 3) {
    SplitFloats(first, std::min<int64_t>(3, 10 - first), values.data() + first, high.data(),
                {.values = low.data(), .first = 5, .count = 3});
  }
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(high[i], SplitFloat::Of(values[i]).high);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(low[i], SplitFloat::Of(values[i + 5]).low);
  EXPECT_EQ(low[3], 1) << "not one of them";
}

}  // namespace
}  // namespace sluice
