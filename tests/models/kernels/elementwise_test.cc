#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

constexpr size_t kSizes[] = {1, 3, 8, 15, 16, 17, 33, 64, 1000, 4099};

bool AllFinite(DType dtype, int64_t n, const void* x) {
  struct Flag {
    bool value = false;
  };
  Reachable<Flag> finite(1);
  KernelsUnderTest().all_finite({}, dtype, n, x, &finite[0].value);
  return finite[0].value;
}

// Tensors of every size in one call, and more of them than a GPU takes in one launch.
TEST(ElementwiseTest, AccumulateAddsOrOverwrites) {
  std::deque<Tensor> values, sums;
  std::vector<AddedTensor> tensors;
  for (int copies = 0; copies < 15; ++copies) {
    for (const size_t n : kSizes) {
      values.emplace_back(DType::kFloat32, RandomValues(n, values.size()));
      sums.emplace_back(DType::kFloat32, n);
      tensors.push_back({static_cast<int64_t>(n), values.back().floats(), sums.back().floats()});
    }
  }
  KernelsUnderTest().accumulate({}, tensors, false);
  for (size_t t = 0; t < tensors.size(); ++t) EXPECT_EQ(sums[t].Bits(), values[t].Bits());
  KernelsUnderTest().accumulate({}, tensors, true);
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (size_t i = 0; i < sums[t].size(); ++i) ASSERT_EQ(sums[t].Get(i), 2 * values[t].Get(i));
  }
}

// A share of the values is dropped, whatever pieces they come in, and what is kept makes up for it.
TEST(ElementwiseTest, DropoutKeepsItsShareInAnyPieces) {
  constexpr int64_t kN = 4099, kCut = 1001;
  const DropoutMask mask = {
      .seed = 3, .stream = 5, .first = 7, .threshold = uint32_t{1} << 30, .scale = 4.0f / 3};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor x(dtype, Values(kN, 1.5));
    const Tensor added(dtype, Rounded(RandomValues(kN, 1), dtype));
    Tensor whole(dtype, kN), sum(dtype, kN);
    KernelsUnderTest().dropout({}, dtype, kN, mask, x.data(), nullptr, whole.data());
    KernelsUnderTest().dropout({}, dtype, kN, mask, x.data(), added.data(), sum.data());
    int64_t dropped = 0;
    for (size_t i = 0; i < kN; ++i) {
      const double kept = whole.Get(i);
      dropped += kept == 0 ? 1 : 0;
      const float term = kept == 0 ? 0 : 1.5f * mask.scale;
      ASSERT_EQ(kept, Rounded(double{term}, dtype));
      ASSERT_EQ(sum.Get(i), Rounded(double{static_cast<float>(added.Get(i)) + term}, dtype));
    }
    EXPECT_NEAR(static_cast<double>(dropped) / kN, 0.25, 0.03);  // 4 standard deviations
    DropoutMask rest = mask;
    rest.first += kCut;
    Tensor part(dtype, kN - kCut);
    KernelsUnderTest().dropout({}, dtype, kN - kCut, rest, x.data(), nullptr, part.data());
    for (size_t i = 0; i < kN - kCut; ++i) ASSERT_EQ(part.Get(i), whole.Get(i + kCut));
  }
}

TEST(ElementwiseTest, ScaleIsRoundedOnce) {
  constexpr float kFactor = 1.3f;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const size_t n : kSizes) {
      const Values before = Rounded(RandomValues(n, 7, -1e3, 1e3), dtype);
      Tensor x(dtype, before);
      KernelsUnderTest().scale({}, dtype, static_cast<int64_t>(n), kFactor, x.data());
      for (size_t i = 0; i < n; ++i) {
        const float product = kFactor * static_cast<float>(before[i]);
        ASSERT_EQ(x.Get(i), Rounded(double{product}, dtype)) << i << " of " << n;
      }
    }
  }
}

// n values from wherever an fp32 may lie, and room for their squares.
struct Squared {
  explicit Squared(size_t n, size_t before)
      : x(DType::kFloat32, RandomValues(before + n, 2, -1e3, 1e3)),
        first(before),
        sums((n + kBlock - 1) / kBlock + 1, kUntouched) {}

  SquaredTensor tensor() {
    return {static_cast<int64_t>(x.size() - first), x.floats() + first, sums.data()};
  }
  void Expect() const {
    const Values all = x.ToValues();
    const Values values(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    for (size_t block = 0; block + 1 < sums.size(); ++block) {
      const size_t end = std::min(values.size(), (block + 1) * kBlock);
      const Values part(values.begin() + static_cast<std::ptrdiff_t>(block * kBlock),
                        values.begin() + static_cast<std::ptrdiff_t>(end));
      const double want = twin::Dot(part, part);
      EXPECT_NEAR(sums[block], want, 1e-14 * want) << block << " of " << values.size();
    }
    EXPECT_EQ(sums.back(), kUntouched);
  }

  static constexpr auto kBlock = static_cast<size_t>(kSquaresBlock);
  static constexpr double kUntouched = -1;
  Tensor x;
  size_t first;
  Reachable<double> sums;
};

TEST(ElementwiseTest, SquaresOfEveryBlockAreNearlyExact) {
  for (const size_t n : kSizes) {
    Squared squared(n, 0);
    const SquaredTensor tensor = squared.tensor();
    KernelsUnderTest().block_squares({}, {&tensor, 1});
    squared.Expect();
  }
}

// As many tensors as one launch takes, and one fewer and more; none, small and large ones, and
// those that are not aligned. Each has the bits that it has alone.
TEST(ElementwiseTest, SquaresOfManyTensorsAreThoseOfEach) {
  for (const size_t count : {2, 127, 128, 129, 300}) {
    std::deque<Squared> all;  // tensors do not move
    for (size_t i = 0; i < count; ++i) all.emplace_back(i * i % 9000 * (i % 5 > 0), i % 7 / 6);
    std::vector<SquaredTensor> tensors;
    for (Squared& squared : all) tensors.push_back(squared.tensor());
    KernelsUnderTest().block_squares({}, tensors);
    for (Squared& squared : all) {
      squared.Expect();
      const Reachable<double> together = squared.sums;
      const SquaredTensor tensor = squared.tensor();
      KernelsUnderTest().block_squares({}, {&tensor, 1});
      EXPECT_EQ(squared.sums, together) << squared.x.size();
    }
  }
}

TEST(ElementwiseTest, AGroupIsAddedOneByOneAndGroupsOnTheirOwn) {
  // One by one, what is small is lost beside 1; together it would not be, and so it is not where it
  // has a group of its own.
  Reachable<double> values(2 * kSumGroup + 2, 1e-16);
  values[0] = values[2 * kSumGroup] = 1;
  Reachable<double> sums = {0, 0};
  const GroupedSum row = {
      .n = static_cast<int64_t>(values.size()), .values = values.data(), .sums = sums.data()};
  KernelsUnderTest().add_in_groups({}, {&row, 1});
  EXPECT_NEAR(sums[0], 1 + 1e-16 * kSumGroup, 3e-16);
  EXPECT_GT(sums[0], 1);
  EXPECT_EQ(sums[1], 1);
}

// Rows of all lengths, in pieces that do not care for groups, several of them a call.
TEST(ElementwiseTest, SumsDoNotDependOnThePiecesThatARowCameIn) {
  std::mt19937 random(1);
  for (const size_t n : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{512},
                         size_t{5000}, size_t{600 * kSumGroup + 3}}) {
    const Values drawn = RandomValues(n, 4, 0, 1);
    const Reachable<double> values(drawn.begin(), drawn.end());
    double whole = 0, part = 0;
    for (size_t i = 0; i < n; ++i) {
      if (i % kSumGroup == 0) whole += std::exchange(part, 0.0);
      part += values[i];
    }
    const size_t copies = n == 257 ? 70 : 1;  // once more than one launch takes
    Reachable<double> sums(2 * copies, 0.0);
    for (size_t at = 0; at < n || n == 0;) {
      const size_t count = std::min<size_t>(n - at, 1 + random() % (n / 3 + 300));
      std::vector<GroupedSum> rows;
      for (size_t copy = 0; copy < copies; ++copy) {
        rows.push_back({.first = static_cast<int64_t>(at),
                        .n = static_cast<int64_t>(count),
                        .values = values.data() + at,
                        .sums = &sums[2 * copy]});
      }
      KernelsUnderTest().add_in_groups({}, rows);
      at += count;
      if (n == 0) break;
    }
    EXPECT_EQ(sums[0] + sums[1], whole + part) << n;
    for (size_t copy = 1; copy < copies; ++copy) ASSERT_EQ(sums[2 * copy], sums[0]);
  }
}

TEST(ElementwiseTest, AllFiniteFindsEveryBadPlace) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const double largest = dtype == DType::kBFloat16 ? 3.38e38 : 3.4e38;
    for (const size_t n : {1u, 5u, 16u, 70u}) {
      Tensor x(dtype, Values(n, -largest));
      const auto count = static_cast<int64_t>(n);
      EXPECT_TRUE(AllFinite(dtype, count, x.data()));
      for (size_t i = 0; i < n; ++i) {
        for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
          x.Set(i, bad);
          EXPECT_FALSE(AllFinite(dtype, count, x.data())) << bad << " at " << i;
        }
        x.Set(i, 1e-40);  // denormal
      }
    }
  }
}

TEST(ElementwiseTest, CopyMovesEveryByte) {
  Tensor from(DType::kBFloat16, RandomValues(37, 3));
  Tensor to(DType::kBFloat16, size_t{37});
  KernelsUnderTest().copy({}, to.data(), from.data(), from.bytes());
  EXPECT_EQ(to.Bits(), from.Bits());
}

}  // namespace
}  // namespace sluice
