#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_format.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr Activation kActivations[] = {Activation::kNone, Activation::kGelu, Activation::kRelu,
                                       Activation::kSilu};

struct Operands {
  Operands(DType dtype, size_t n)
      : gate(Rounded(RandomValues(n, n, -8, 8), dtype)),
        up(Rounded(RandomValues(n, n + 1, -2, 2), dtype)),
        dy(Rounded(RandomValues(n, n + 2), dtype)) {}
  Values gate, up, dy;
};

template <class Body>
void ForEachCase(const Body& body) {
  for (const DType dtype : kTypes) {
    for (const Activation activation : kActivations) {
      for (const size_t n : {0, 1, 7, 16, 17, 100, 1003}) {
        SCOPED_TRACE(absl::StrFormat("%s, activation %d, %d values", DTypeName(dtype),
                                     static_cast<int>(activation), n));
        body(dtype, activation, n);
      }
    }
  }
}

TEST(GatedTest, ForwardMatchesTheFormulaAndMayOverwriteAnOperand) {
  ForEachCase([](DType dtype, Activation activation, size_t n) {
    const Operands of(dtype, n);
    const Values want = twin::Gated(activation, of.gate, of.up);
    const auto count = static_cast<int64_t>(n);
    Tensor y(dtype, n), gate(dtype, of.gate), up(dtype, of.up);
    const auto forward = [&](void* to) {
      KernelsUnderTest().gated_forward({}, dtype, activation, count, gate.data(), up.data(), to);
    };
    forward(y.data());
    // One rounding, of a product of two numbers with an error of their own.
    ExpectClose(y, want, 1.01 * Epsilon(dtype), 1e-6, "y");
    const std::vector<char> bits = y.Bits();
    forward(gate.data());
    EXPECT_EQ(gate.Bits(), bits);
    const Tensor again(dtype, of.gate);
    KernelsUnderTest().gated_forward({}, dtype, activation, count, again.data(), up.data(),
                                     up.data());
    EXPECT_EQ(up.Bits(), bits);
  });
}

TEST(GatedTest, BackwardMatchesTheFormulaAndMayOverwriteTheGradient) {
  ForEachCase([](DType dtype, Activation activation, size_t n) {
    const Operands of(dtype, n);
    const twin::GatedGradient want = twin::GatedBackward(activation, of.gate, of.up, of.dy);
    const auto count = static_cast<int64_t>(n);
    const Tensor gate(dtype, of.gate), up(dtype, of.up);
    Tensor dy(dtype, of.dy), dgate(dtype, n), dup(dtype, n);
    const auto backward = [&](Tensor& from, Tensor& to_gate, Tensor& to_up) {
      KernelsUnderTest().gated_backward({}, dtype, activation, count, gate.data(), up.data(),
                                        from.data(), to_gate.data(), to_up.data());
    };
    backward(dy, dgate, dup);
    ExpectClose(dgate, want.gate, 1.01 * Epsilon(dtype), 2e-6, "dgate");
    ExpectClose(dup, want.up, 1.01 * Epsilon(dtype), 1e-6, "dup");
    Tensor as_gate(dtype, of.dy), other(dtype, n);
    backward(as_gate, as_gate, other);
    EXPECT_EQ(as_gate.Bits(), dgate.Bits());
    EXPECT_EQ(other.Bits(), dup.Bits());
    backward(dy, other, dy);
    EXPECT_EQ(other.Bits(), dgate.Bits());
    EXPECT_EQ(dy.Bits(), dup.Bits());
  });
}

TEST(GatedTest, ExtremesHaveTheirLimits) {
  const Values values = {-3e38, -1e30, -1e4, -100, 100, 1e4, 1e30, 3e38};
  const size_t n = values.size();
  const Tensor gate(DType::kFloat32, values), up(DType::kFloat32, Values(n, 0.5));
  Tensor y(DType::kFloat32, n), dgate(DType::kFloat32, n), dup(DType::kFloat32, n);
  const Tensor dy(DType::kFloat32, Values(n, 1));
  KernelsUnderTest().gated_forward({}, DType::kFloat32, Activation::kSilu, static_cast<int64_t>(n),
                                   gate.data(), up.data(), y.data());
  KernelsUnderTest().gated_backward({}, DType::kFloat32, Activation::kSilu, static_cast<int64_t>(n),
                                    gate.data(), up.data(), dy.data(), dgate.data(), dup.data());
  for (size_t i = 0; i < n; ++i) {
    const bool positive = values[i] > 0;
    EXPECT_EQ(y.Get(i), positive ? 0.5 * gate.Get(i) : 0) << values[i];
    EXPECT_EQ(dup.Get(i), positive ? gate.Get(i) : 0) << values[i];
    EXPECT_EQ(dgate.Get(i), positive ? 0.5 : 0) << values[i];
  }
}

// What is not a number, in any operand, is none in the results that it takes part in.
TEST(GatedTest, NaNAndInfinityShow) {
  for (const DType dtype : kTypes) {
    for (const Activation activation : kActivations) {
      for (const double bad : {std::nan(""), HUGE_VAL}) {
        const Tensor gate(dtype, Values{bad, 1, 1, 1}), up(dtype, Values{1, bad, 1, 1});
        const Tensor dy(dtype, Values{1, 1, bad, 1});
        Tensor y(dtype, 4), dgate(dtype, 4), dup(dtype, 4);
        KernelsUnderTest().gated_forward({}, dtype, activation, 4, gate.data(), up.data(),
                                         y.data());
        KernelsUnderTest().gated_backward({}, dtype, activation, 4, gate.data(), up.data(),
                                          dy.data(), dgate.data(), dup.data());
        SCOPED_TRACE(static_cast<int>(activation));
        EXPECT_FALSE(std::isfinite(y.Get(0)));
        EXPECT_FALSE(std::isfinite(y.Get(1)));
        EXPECT_FALSE(std::isfinite(dup.Get(0)));
        EXPECT_FALSE(std::isfinite(dgate.Get(1)));
        EXPECT_FALSE(std::isfinite(dgate.Get(2)));
        EXPECT_FALSE(std::isfinite(dup.Get(2)));
        for (Tensor* result : {&y, &dgate, &dup}) EXPECT_TRUE(std::isfinite(result->Get(3)));
      }
    }
  }
}

}  // namespace
}  // namespace sluice
