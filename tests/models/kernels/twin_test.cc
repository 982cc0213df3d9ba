// The twins' gradients against central differences; the kernels are held against the twins
// elsewhere.
#include "tests/models/kernels/twin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::twin {
namespace {

constexpr double kTolerance = 1e-8;

void ExpectSame(const Values& got, const Values& want) {
  EXPECT_THAT(got, testing::Pointwise(testing::DoubleNear(kTolerance), want));
}

TEST(TwinTest, ActivationSlopeIsTheDerivative) {
  for (const Activation activation :
       {Activation::kNone, Activation::kGelu, Activation::kRelu, Activation::kSilu}) {
    for (const double x : {-3.0, -0.7, -0.01, 0.02, 0.9, 4.0}) {
      const auto value = [&](const Values& at) { return Activate(activation, at[0]); };
      ExpectSame({ActivationSlope(activation, x)}, Differences(value, {x}));
    }
  }
}

TEST(TwinTest, LayerNormGradients) {
  constexpr int64_t kRows = 3, kDim = 5;
  constexpr double kEpsilon = 1e-3;
  const Values x = RandomMatrix(kRows, kDim, 1);
  const Values gamma = RandomValues(kDim, 2);
  const Values beta = RandomValues(kDim, 3);
  const Values dy = RandomMatrix(kRows, kDim, 4);
  const auto loss = [&](const Values& x_, const Values& gamma_, const Values& beta_) {
    return Dot(dy, LayerNorm(kRows, kDim, kEpsilon, x_, gamma_, beta_).y);
  };
  const NormGradient gradient = LayerNormBackward(kRows, kDim, kEpsilon, dy, x, gamma);
  ExpectSame(gradient.dx, Differences([&](const Values& v) { return loss(v, gamma, beta); }, x));
  ExpectSame(gradient.dgamma,
             Differences([&](const Values& v) { return loss(x, v, beta); }, gamma));
  ExpectSame(gradient.dbeta, Differences([&](const Values& v) { return loss(x, gamma, v); }, beta));
}

TEST(TwinTest, RmsNormGradients) {
  constexpr int64_t kRows = 3, kDim = 5;
  constexpr double kEpsilon = 1e-3;
  const Values x = RandomMatrix(kRows, kDim, 1);
  const Values gamma = RandomValues(kDim, 2);
  const Values dy = RandomMatrix(kRows, kDim, 4);
  const auto loss = [&](const Values& x_, const Values& gamma_) {
    return Dot(dy, RmsNorm(kRows, kDim, kEpsilon, x_, gamma_).y);
  };
  const NormGradient gradient = RmsNormBackward(kRows, kDim, kEpsilon, dy, x, gamma);
  ExpectSame(gradient.dx, Differences([&](const Values& v) { return loss(v, gamma); }, x));
  ExpectSame(gradient.dgamma, Differences([&](const Values& v) { return loss(x, v); }, gamma));
}

TEST(TwinTest, GatedGradients) {
  const Values gate = RandomValues(9, 1, -4, 4), up = RandomValues(9, 2), dy = RandomValues(9, 3);
  for (const Activation activation : {Activation::kGelu, Activation::kSilu}) {
    const GatedGradient gradient = GatedBackward(activation, gate, up, dy);
    const auto loss = [&](const Values& gate_, const Values& up_) {
      return Dot(dy, Gated(activation, gate_, up_));
    };
    ExpectSame(gradient.gate, Differences([&](const Values& v) { return loss(v, up); }, gate));
    ExpectSame(gradient.up, Differences([&](const Values& v) { return loss(gate, v); }, up));
  }
}

TEST(TwinTest, AttentionGradient) {
  const AttentionShape shape = {.batch = 2,
                                .seq = 5,
                                .heads = 4,
                                .kv_heads = 2,
                                .width = 3,
                                .window = 3,
                                .scale = 0.7f,
                                .soft_cap = 4};
  const Starts starts = {0, 0, 2, 2, 2, 0, 1, 1, 1, 4};
  const QueriesKeysValues in = {RandomMatrix(10, 12, 5, -2, 2), RandomMatrix(10, 6, 6, -2, 2),
                                RandomMatrix(10, 6, 7, -2, 2)};
  const Values dout = RandomMatrix(10, 12, 8);
  const QueriesKeysValues got = AttendBackward(shape, in, dout, starts);
  const auto loss = [&](const QueriesKeysValues& at) {
    return Dot(dout, Attend(shape, at, starts).out);
  };
  ExpectSame(got.q, Differences([&](const Values& v) { return loss({v, in.k, in.v}); }, in.q));
  ExpectSame(got.k, Differences([&](const Values& v) { return loss({in.q, v, in.v}); }, in.k));
  ExpectSame(got.v, Differences([&](const Values& v) { return loss({in.q, in.k, v}); }, in.v));
}

TEST(TwinTest, CrossEntropyGradient) {
  const Values logits = RandomMatrix(4, 7, 7, -3, 3);
  const std::vector<int32_t> targets = {0, 6, 3, 2};
  const auto loss = [&](const Values& v) { return CrossEntropy(4, 7, v, targets).sum; };
  ExpectSame(CrossEntropy(4, 7, logits, targets).dlogits, Differences(loss, logits));
}

TEST(TwinTest, CrossEntropyGradientThroughASoftCapAndWithoutATarget) {
  const Values logits = RandomMatrix(4, 7, 7, -3, 3);
  const std::vector<int32_t> targets = {0, -1, 3, 2};
  const auto loss = [&](const Values& v) { return CrossEntropy(4, 7, v, targets, 2.5).sum; };
  ExpectSame(CrossEntropy(4, 7, logits, targets, 2.5).dlogits, Differences(loss, logits));
}

}  // namespace
}  // namespace sluice::twin
