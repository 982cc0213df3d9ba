#include "models/data/permutation.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

std::vector<int64_t> All(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(permutation(i));
  return values;
}

TEST(PermutationTest, IsABijectionForEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<int64_t> values = All(size, 7, epoch);
      const std::set<int64_t> distinct(values.begin(), values.end());
      ASSERT_EQ(static_cast<int64_t>(distinct.size()), size);
      ASSERT_EQ(*distinct.begin(), 0);
      ASSERT_EQ(*distinct.rbegin(), size - 1);
    }
  }
}

TEST(PermutationTest, IsABijectionOfAHundredThousand) {
  const std::vector<int64_t> values = All(100'003, 1, 1);
  std::vector<bool> seen(values.size());
  for (const int64_t value : values) {
    ASSERT_FALSE(seen.at(static_cast<size_t>(value))) << value;
    seen[static_cast<size_t>(value)] = true;
  }
}

TEST(PermutationTest, StaysInRangeForSizesBeyond32Bits) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation permutation(size, 3, 5);
  std::set<int64_t> distinct;
  for (int64_t i = 0; i < 1000; ++i) {
    for (const int64_t position : {i, size - 1 - i}) {
      const int64_t value = permutation(position);
      ASSERT_GE(value, 0);
      ASSERT_LT(value, size);
      distinct.insert(value);
    }
  }
  EXPECT_EQ(distinct.size(), 2000u);
}

TEST(PermutationTest, SeedsAndEpochsDiffer) {
  EXPECT_NE(All(1000, 1, 0), All(1000, 1, 1));
  EXPECT_NE(All(1000, 1, 0), All(1000, 2, 0));
  EXPECT_EQ(All(1000, 1, 0), All(1000, 1, 0));
}

// Chi-square of where the first quarter goes, over many epochs: mean 15, standard deviation
// sqrt(30); 60 is 8 of them.
TEST(PermutationTest, SpreadsEvenly) {
  constexpr int64_t kSize = 64;
  constexpr int kEpochs = 4000;
  for (const int64_t position : {0, 1, 31, 63}) {
    std::vector<double> hits(16);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const int64_t value = Permutation(kSize, 11, static_cast<uint64_t>(epoch))(position);
      ++hits[static_cast<size_t>(value) / 4];
    }
    const double expected = kEpochs / 16.0;
    double chi_square = 0;
    for (const double hit : hits) chi_square += (hit - expected) * (hit - expected) / expected;
    EXPECT_LT(chi_square, 60) << "position " << position;
  }
}

}  // namespace
}  // namespace sluice
