#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "models/spec/bfloat16.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/reachable.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

constexpr size_t kSizes[] = {1, 15, 16, 17, 1001};

// Loshchilov & Hutter 2019, algorithm 2, with the decay scaled by lr as PyTorch does.
TEST(OptimizerTest, AdamWFollowsThePaperOverSteps) {
  for (const size_t n : kSizes) {
    Tensor w(DType::kFloat32, RandomValues(n, 1));
    Tensor m(DType::kFloat32, Values(n, 0));
    Tensor v(DType::kFloat32, Values(n, 0));
    Values w_want = w.ToValues(), m_want(n, 0), v_want(n, 0);
    for (int64_t t = 1; t <= 5; ++t) {
      Tensor grad(DType::kFloat32, RandomValues(n, static_cast<uint64_t>(t) + 10));
      const AdamWStep step = {.lr = 0.01f,
                              .beta1 = 0.9f,
                              .beta2 = 0.95f,
                              .epsilon = 1e-8f,
                              .step = t,
                              .grad_scale = 0.5f};
      const OptimizerTensor tensor = {.n = static_cast<int64_t>(n),
                                      .weight = w.floats(),
                                      .gradient = grad.floats(),
                                      .moment1 = m.floats(),
                                      .moment2 = v.floats(),
                                      .weight_decay = 0.1f};
      KernelsUnderTest().adamw({}, step, {&tensor, 1});
      const double b1 = static_cast<double>(step.beta1), b2 = static_cast<double>(step.beta2);
      for (size_t i = 0; i < n; ++i) {
        const double g = grad.Get(i) * 0.5;
        m_want[i] = b1 * m_want[i] + (1 - b1) * g;
        v_want[i] = b2 * v_want[i] + (1 - b2) * g * g;
        const double m_hat = m_want[i] / (1 - std::pow(b1, static_cast<double>(t)));
        const double v_hat = v_want[i] / (1 - std::pow(b2, static_cast<double>(t)));
        w_want[i] -=
            static_cast<double>(step.lr) * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.1 * w_want[i]);
      }
      ExpectClose(w, w_want, 2e-6, 1e-7, "w");
      ExpectClose(m, m_want, 1e-6, 1e-8, "m");
      ExpectClose(v, v_want, 2e-6, 1e-9, "v");
    }
  }
}

TEST(OptimizerTest, FirstAdamWStepMovesByTheLearningRate) {
  Tensor w(DType::kFloat32, Values(20, 3));
  Tensor grad(DType::kFloat32, Values(20, -0.7));
  Tensor m(DType::kFloat32, Values(20, 0));
  Tensor v(DType::kFloat32, Values(20, 0));
  const OptimizerTensor tensor = {.n = 20,
                                  .weight = w.floats(),
                                  .gradient = grad.floats(),
                                  .moment1 = m.floats(),
                                  .moment2 = v.floats()};
  KernelsUnderTest().adamw({}, {.lr = 0.5f, .step = 1}, {&tensor, 1});
  ExpectClose(w, Values(20, 3.5), 1e-6, 0, "w");
}

TEST(OptimizerTest, EveryTensorOfACallIsChangedByItsOwnDecay) {
  Tensor first(DType::kFloat32, Values(3, 1)), second(DType::kFloat32, Values(17, 2));
  Tensor grad(DType::kFloat32, Values(17, 0)), momentum(DType::kFloat32, Values(20, 0));
  const OptimizerTensor tensors[] = {
      {.n = 3, .weight = first.floats(), .gradient = grad.floats(), .moment1 = momentum.floats()},
      {.n = 17,
       .weight = second.floats(),
       .gradient = grad.floats(),
       .moment1 = momentum.floats() + 3,
       .weight_decay = 0.5f}};
  KernelsUnderTest().sgd({}, {.lr = 0.5f}, absl::MakeConstSpan(tensors));
  ExpectClose(first, Values(3, 1), 0, 1e-9, "first");
  ExpectClose(second, Values(17, 1.5), 0, 1e-9, "second");
}

TEST(OptimizerTest, SgdFollowsItsFormulaOverSteps) {
  for (const size_t n : kSizes) {
    Tensor w(DType::kFloat32, RandomValues(n, 1));
    Tensor momentum(DType::kFloat32, Values(n, 0));
    Values w_want = w.ToValues(), momentum_want(n, 0);
    for (uint64_t t = 1; t <= 5; ++t) {
      Tensor grad(DType::kFloat32, RandomValues(n, t + 10));
      const OptimizerTensor tensor = {.n = static_cast<int64_t>(n),
                                      .weight = w.floats(),
                                      .gradient = grad.floats(),
                                      .moment1 = momentum.floats(),
                                      .weight_decay = 0.01f};
      KernelsUnderTest().sgd({}, {.lr = 0.1f, .momentum = 0.9f, .grad_scale = 0.5f}, {&tensor, 1});
      for (size_t i = 0; i < n; ++i) {
        momentum_want[i] = 0.9 * momentum_want[i] + 0.5 * grad.Get(i) + 0.01 * w_want[i];
        w_want[i] -= 0.1 * momentum_want[i];
      }
      ExpectClose(momentum, momentum_want, 2e-6, 1e-7, "momentum");
      ExpectClose(w, w_want, 2e-6, 1e-7, "w");
    }
  }
}

// The same weights twice: as fp32, and in two parts.
struct WeightsTwice {
  explicit WeightsTwice(size_t n) : whole(DType::kFloat32, RandomValues(n, 1)), high(n), low(n) {
    SplitFloats(0, static_cast<int64_t>(n), whole.floats(), high.data(),
                {.values = low.data(), .count = static_cast<int64_t>(n)});
  }

  void ExpectEqual() const {
    for (size_t i = 0; i < high.size(); ++i) {
      const SplitFloat parts = SplitFloat::Of(static_cast<float>(whole.Get(i)));
      ASSERT_EQ(high[i], parts.high) << i;
      ASSERT_EQ(low[i], parts.low) << i;
    }
  }

  Tensor whole;
  Reachable<uint16_t> high, low;
};

TEST(OptimizerTest, SplitWeightsAreUpdatedAsWholeOnes) {
  for (const bool sgd : {false, true}) {
    for (const size_t n : kSizes) {
      WeightsTwice weights(n);
      Tensor moments[] = {{DType::kFloat32, Values(n, 0)},
                          {DType::kFloat32, Values(n, 0)},
                          {DType::kFloat32, Values(n, 0)},
                          {DType::kFloat32, Values(n, 0)}};
      for (int64_t step = 1; step <= 5; ++step) {
        Tensor grad(DType::kFloat32, RandomValues(n, static_cast<uint64_t>(step) + 10));
        OptimizerTensor whole = {.n = static_cast<int64_t>(n),
                                 .weight = weights.whole.floats(),
                                 .gradient = grad.floats(),
                                 .moment1 = moments[0].floats(),
                                 .moment2 = moments[1].floats(),
                                 .weight_decay = 0.1f};
        OptimizerTensor split = whole;
        split.weight = weights.high.data();
        split.low_halves = weights.low.data();
        split.moment1 = moments[2].floats();
        split.moment2 = moments[3].floats();
        for (const OptimizerTensor& tensor : {whole, split}) {
          if (sgd) {
            KernelsUnderTest().sgd({}, {.lr = 0.1f, .momentum = 0.9f}, {&tensor, 1});
          } else {
            KernelsUnderTest().adamw({}, {.lr = 0.01f, .step = step}, {&tensor, 1});
          }
        }
        weights.ExpectEqual();
      }
    }
  }
}

}  // namespace
}  // namespace sluice
