#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

TEST(ElementwiseTest, AccumulateAddsOrOverwrites) {
  for (const size_t n : kSizes) {
    const Values first = Rounded(RandomValues(n, 1), DType::kFloat32);
    Tensor x(DType::kFloat32, first);
    Tensor y(DType::kFloat32, n);
    KernelsUnderTest().accumulate({}, static_cast<int64_t>(n), x.floats(), y.floats(), false);
    EXPECT_EQ(y.ToValues(), first);
    KernelsUnderTest().accumulate({}, static_cast<int64_t>(n), x.floats(), y.floats(), true);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(y.Get(i), 2 * first[i]);
  }
}

TEST(ElementwiseTest, SquaresOfEveryBlockAreNearlyExact) {
  for (const size_t n : kSizes) {
    Tensor x(DType::kFloat32, RandomValues(n, 2, -1e3, 1e3));
    const Values values = x.ToValues();
    constexpr auto kBlock = static_cast<size_t>(kSquaresBlock);
    constexpr double kUntouched = -1;
    Reachable<double> sums((n + kBlock - 1) / kBlock + 1, kUntouched);
    KernelsUnderTest().block_squares({}, static_cast<int64_t>(n), x.floats(), sums.data());
    for (size_t block = 0; block + 1 < sums.size(); ++block) {
      const Values part(
          values.begin() + static_cast<std::ptrdiff_t>(block * kBlock),
          values.begin() + static_cast<std::ptrdiff_t>(std::min(n, (block + 1) * kBlock)));
      const double want = twin::Dot(part, part);
      EXPECT_NEAR(sums[block], want, 1e-14 * want);
    }
    EXPECT_EQ(sums.back(), kUntouched);
  }
}

TEST(ElementwiseTest, AddInOrderStartsAfreshOrGoesOn) {
  const Reachable<double> values = {1, 1e-16, 1e-16, 0.5};
  Reachable<double> total = {7};
  KernelsUnderTest().add_in_order({}, 4, values.data(), total.data(), false);
  EXPECT_EQ(total[0], 1.5);  // one by one the small ones are lost; together they would not be
  KernelsUnderTest().add_in_order({}, 1, values.data(), total.data(), true);
  EXPECT_EQ(total[0], 2.5);
  KernelsUnderTest().add_in_order({}, 0, nullptr, total.data(), false);
  EXPECT_EQ(total[0], 0);
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
