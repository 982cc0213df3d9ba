#include <gtest/gtest.h>

#include <cmath>

#include "models/kernels/kernels.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

constexpr size_t kSizes[] = {1, 3, 8, 15, 16, 17, 33, 64, 1000, 4099};

TEST(ElementwiseTest, AccumulateAddsOrOverwrites) {
  for (const size_t n : kSizes) {
    const Values first = Rounded(RandomValues(n, 1), DType::kFloat32);
    Tensor x(DType::kFloat32, first);
    Tensor y(DType::kFloat32, n);
    CpuKernels().accumulate({}, static_cast<int64_t>(n), x.floats(), y.floats(), false);
    EXPECT_EQ(y.ToValues(), first);
    CpuKernels().accumulate({}, static_cast<int64_t>(n), x.floats(), y.floats(), true);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(y.Get(i), 2 * first[i]);
  }
}

TEST(ElementwiseTest, SumOfSquaresIsNearlyExact) {
  for (const size_t n : kSizes) {
    Tensor x(DType::kFloat32, RandomValues(n, 2, -1e3, 1e3));
    const double want = twin::Dot(x.ToValues(), x.ToValues());
    EXPECT_NEAR(CpuKernels().sum_of_squares({}, static_cast<int64_t>(n), x.floats()), want,
                1e-14 * want);
  }
  Tensor none(DType::kFloat32, size_t{0});
  EXPECT_EQ(CpuKernels().sum_of_squares({}, 0, none.floats()), 0);
}

TEST(ElementwiseTest, AllFiniteFindsEveryBadPlace) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const double largest = dtype == DType::kBFloat16 ? 3.38e38 : 3.4e38;
    for (const size_t n : {1u, 5u, 16u, 70u}) {
      Tensor x(dtype, Values(n, -largest));
      const auto count = static_cast<int64_t>(n);
      EXPECT_TRUE(CpuKernels().all_finite({}, dtype, count, x.data()));
      for (size_t i = 0; i < n; ++i) {
        for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
          x.Set(i, bad);
          EXPECT_FALSE(CpuKernels().all_finite({}, dtype, count, x.data())) << bad << " at " << i;
        }
        x.Set(i, 1e-40);  // denormal
      }
    }
  }
}

TEST(ElementwiseTest, CopyMovesEveryByte) {
  Tensor from(DType::kBFloat16, RandomValues(37, 3));
  Tensor to(DType::kBFloat16, size_t{37});
  CpuKernels().copy({}, to.data(), from.data(), from.bytes());
  EXPECT_EQ(to.Bits(), from.Bits());
}

}  // namespace
}  // namespace sluice
