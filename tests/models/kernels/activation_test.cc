#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr Activation kActivations[] = {Activation::kNone, Activation::kGelu, Activation::kRelu,
                                       Activation::kSilu};

TEST(ActivationTest, ForwardAndBackwardMatchTheFormula) {
  for (const DType dtype : kTypes) {
    for (const Activation activation : kActivations) {
      for (const size_t n : {1, 7, 16, 17, 100, 1003, 4096, 7003}) {
        const Values values = Rounded(RandomValues(n, n, -6, 6), dtype);
        const Values gradient = Rounded(RandomValues(n, n + 1), dtype);
        const Tensor x(dtype, values);
        Tensor y(dtype, n);
        Tensor dx(dtype, gradient);  // dx may be dy
        const auto count = static_cast<int64_t>(n);
        KernelsUnderTest().activation_forward({}, dtype, activation, count, x.data(), y.data());
        KernelsUnderTest().activation_backward({}, dtype, activation, count, x.data(), dx.data(),
                                               dx.data());
        Values want(n), slope(n);
        for (size_t i = 0; i < n; ++i) {
          want[i] = twin::Activate(activation, values[i]);
          slope[i] = twin::ActivationSlope(activation, values[i]) * gradient[i];
        }
        ExpectClose(y, want, 4 * Epsilon(dtype), 1e-6, "y");
        ExpectClose(dx, slope, 4 * Epsilon(dtype), 1e-6, "dx");
      }
    }
  }
}

TEST(ActivationTest, ExtremesHaveTheirLimits) {
  const Values values = {-1e30, -1e4, -88, 88, 1e4, 1e30};
  const size_t n = values.size();
  const Tensor x(DType::kFloat32, values);
  Tensor y(DType::kFloat32, n);
  Tensor dx(DType::kFloat32, Values(n, 1));
  KernelsUnderTest().activation_forward({}, DType::kFloat32, Activation::kGelu, 6, x.data(),
                                        y.data());
  KernelsUnderTest().activation_backward({}, DType::kFloat32, Activation::kGelu, 6, x.data(),
                                         dx.data(), dx.data());
  for (size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(dx.Get(i), values[i] > 0 ? 1 : 0, 1e-6) << values[i];
    if (values[i] > 0) {
      EXPECT_EQ(y.Get(i), x.Get(i));
    } else {
      EXPECT_NEAR(y.Get(i) / values[i], 0, 1e-30) << values[i];
    }
  }
}

TEST(ActivationTest, SiluDoesNotOverflow) {
  const Values values = {-3e38, -1e4, -88, 88, 1e4, 3e38};
  const size_t n = values.size();
  const Tensor x(DType::kFloat32, values);
  Tensor y(DType::kFloat32, n);
  Tensor dx(DType::kFloat32, Values(n, 1));
  KernelsUnderTest().activation_forward({}, DType::kFloat32, Activation::kSilu, 6, x.data(),
                                        y.data());
  KernelsUnderTest().activation_backward({}, DType::kFloat32, Activation::kSilu, 6, x.data(),
                                         dx.data(), dx.data());
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(y.Get(i), values[i] > 0 ? x.Get(i) : 0) << values[i];
    EXPECT_EQ(dx.Get(i), values[i] > 0 ? 1 : 0) << values[i];
  }
}

TEST(ActivationTest, NaNStaysNaN) {
  for (const DType dtype : kTypes) {
    for (const Activation activation : kActivations) {
      const Tensor x(dtype, Values{std::nan(""), 1.0});
      Tensor y(dtype, 2);
      KernelsUnderTest().activation_forward({}, dtype, activation, 2, x.data(), y.data());
      EXPECT_TRUE(std::isnan(y.Get(0)));
      EXPECT_FALSE(std::isnan(y.Get(1)));
    }
  }
}

}  // namespace
}  // namespace sluice
