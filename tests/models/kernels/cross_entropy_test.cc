#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

struct Result {
  double loss = 0;
  int64_t correct = 0;
};

// Adds to `before` where it is given. The logits have rows + padding rows.
Result Compute(const CrossEntropyShape& shape, const std::vector<int32_t>& targets,
               float grad_scale, Tensor* logits, const Result* before = nullptr) {
  const Reachable<int32_t> reachable(targets.begin(), targets.end());
  Reachable<Result> result(1);
  if (before != nullptr) result[0] = *before;
  Workspace workspace(KernelsUnderTest().cross_entropy_workspace(shape.rows, shape.classes));
  KernelsUnderTest().cross_entropy({}, shape, logits->data(), reachable.data(), grad_scale,
                                   before != nullptr, &result[0].loss, &result[0].correct,
                                   workspace.data());
  return result[0];
}

Result Compute(int64_t rows, const std::vector<int32_t>& targets, float grad_scale,
               Tensor* logits) {
  const auto classes = static_cast<int64_t>(logits->size()) / rows;
  return Compute({.dtype = logits->dtype(), .rows = rows, .classes = classes}, targets, grad_scale,
                 logits);
}

std::vector<int32_t> Targets(int64_t rows, int64_t classes) {
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < rows; ++r) targets.push_back(static_cast<int32_t>(r * 7 % classes));
  return targets;
}

TEST(CrossEntropyTest, LossCountAndGradient) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 3, 20}) {
      for (const int64_t classes : {1, 2, 10, 16, 17, 256, 1001}) {
        const Values values = Rounded(RandomMatrix(rows, classes, 1, -8, 8), dtype);
        const std::vector<int32_t> targets = Targets(rows, classes);
        twin::Loss want = twin::CrossEntropy(rows, classes, values, targets);
        Tensor logits(dtype, values);
        constexpr float kScale = 0.25f;
        const Result got = Compute(rows, targets, kScale, &logits);
        EXPECT_NEAR(got.loss, want.sum, 1e-6 * (1 + want.sum));
        EXPECT_EQ(got.correct, want.correct);
        for (double& value : want.dlogits) value *= static_cast<double>(kScale);
        ExpectClose(logits, want.dlogits, 4 * Epsilon(dtype), 1e-7, "dlogits");
      }
    }
  }
}

// A GPU keeps rows of up to 112 KiB in shared memory: around the widest, and where rows begin
// between two places of 16 bytes.
TEST(CrossEntropyTest, VocabulariesOfManyWidths) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const int64_t widest = int64_t{112} * 1024 / static_cast<int64_t>(SizeOf(dtype));
    for (const int64_t rows : {1, 5}) {
      for (const int64_t classes :
           {int64_t{8}, int64_t{256}, int64_t{1000}, int64_t{50257}, int64_t{50304}, widest - 7,
            widest - 1, widest, widest + 1, widest + 8}) {
        const Values values = Rounded(RandomMatrix(rows, classes, 1, -8, 8), dtype);
        std::vector<int32_t> targets = Targets(rows, classes);
        targets.back() = static_cast<int32_t>(classes - 1);
        const twin::Loss want = twin::CrossEntropy(rows, classes, values, targets);
        Tensor logits(dtype, values);
        const Result got = Compute(rows, targets, 1, &logits);
        EXPECT_NEAR(got.loss, want.sum, 1e-6 * (1 + want.sum)) << rows << " x " << classes;
        EXPECT_EQ(got.correct, want.correct) << rows << " x " << classes;
        ExpectClose(logits, want.dlogits, 4 * Epsilon(dtype), 1e-7, "dlogits");
      }
    }
  }
}

TEST(CrossEntropyTest, LogitsStayWithoutGradient) {
  const Values values = RandomMatrix(3, 40, 2);
  Tensor logits(DType::kFloat32, values);
  const std::vector<char> before = logits.Bits();
  Compute(3, Targets(3, 40), 0, &logits);
  EXPECT_EQ(logits.Bits(), before);
}

TEST(CrossEntropyTest, TheFirstOfEqualsIsThePrediction) {
  for (const int32_t target : {0, 5, 20, 33}) {
    Values values(40, -1);
    values[5] = values[20] = values[33] = 2;
    Tensor logits(DType::kFloat32, values);
    EXPECT_EQ(Compute(1, {target}, 0, &logits).correct, target == 5 ? 1 : 0) << target;
  }
}

TEST(CrossEntropyTest, LargeLogitsGiveExactLosses) {
  Tensor logits(DType::kFloat32, Values{1000, 0, -1000});
  EXPECT_EQ(Compute(1, {2}, 0, &logits).loss, 2000);
  EXPECT_EQ(Compute(1, {0}, 0, &logits).loss, 0);
}

TEST(CrossEntropyTest, NaNAndInfinityShowInTheLoss) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      for (const size_t where : {0, 9, 33}) {
        Values values(34, 1);
        values[where] = bad;
        Tensor logits(dtype, values);
        EXPECT_FALSE(std::isfinite(Compute(1, {3}, 0, &logits).loss)) << bad << " at " << where;
      }
    }
  }
}

TEST(CrossEntropyTest, ARowWithoutATargetCountsNowhere) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t classes : {1, 17, 1001}) {
      const Values values = Rounded(RandomMatrix(5, classes, 1, -8, 8), dtype);
      std::vector<int32_t> targets = Targets(5, classes);
      targets[0] = targets[3] = -1;
      const twin::Loss want = twin::CrossEntropy(5, classes, values, targets);
      Tensor logits(dtype, values);
      const Result got = Compute(5, targets, 1, &logits);
      EXPECT_NEAR(got.loss, want.sum, 1e-6 * (1 + want.sum));
      EXPECT_EQ(got.correct, want.correct);
      ExpectClose(logits, want.dlogits, 4 * Epsilon(dtype), 1e-7, "dlogits");
    }
  }
  Values values = RandomMatrix(1, 40, 2);
  values[7] = std::nan("");
  Tensor logits(DType::kFloat32, values);
  EXPECT_EQ(Compute(1, {-1}, 1, &logits).loss, 0);
  EXPECT_EQ(logits.ToValues(), Values(40, 0)) << "exactly nothing, whatever the logits are";
}

TEST(CrossEntropyTest, PaddingHasAGradientOfZero) {
  for (const int64_t classes : {1, 17, 300}) {
    Values values = RandomMatrix(5, classes, 3);
    values.back() = std::nan("");
    Tensor logits(DType::kFloat32, values);
    const std::vector<int32_t> targets = Targets(3, classes);
    Compute({.rows = 3, .classes = classes, .padding = 2}, targets, 1, &logits);
    values.resize(static_cast<size_t>(3 * classes));
    Values want = twin::CrossEntropy(3, classes, values, targets).dlogits;
    want.resize(static_cast<size_t>(5 * classes));
    ExpectClose(logits, want, 4 * Epsilon(DType::kFloat32), 1e-7, "dlogits");
  }
}

// Of a vocabulary that is padded: what is behind it is not read, and gets a gradient of 0.
TEST(CrossEntropyTest, RowsMayBeLongerThanTheVocabulary) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [classes, width] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 64}, {17, 20}, {300, 320}, {5000, 5056}, {70'000, 70'016}}) {
      constexpr int64_t kRows = 4, kPadding = 1;
      const Values values = Rounded(RandomMatrix(kRows, classes, 6, -8, 8), dtype);
      std::vector<int32_t> targets = Targets(kRows, classes);
      targets[1] = static_cast<int32_t>(classes - 1);
      targets[2] = -1;
      const twin::Loss want = twin::CrossEntropy(kRows, classes, values, targets);
      Tensor logits(dtype, Values(static_cast<size_t>((kRows + kPadding) * width), std::nan("")));
      Values gradient((kRows + kPadding) * static_cast<size_t>(width));
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < classes; ++c) {
          const auto from = static_cast<size_t>(r * classes + c);
          const auto to = static_cast<size_t>(r * width + c);
          logits.Set(to, values[from]);
          gradient[to] = want.dlogits[from];
        }
      }
      const CrossEntropyShape shape{
          .dtype = dtype, .rows = kRows, .classes = classes, .padding = kPadding, .width = width};
      const Result got = Compute(shape, targets, 1, &logits);
      EXPECT_NEAR(got.loss, want.sum, 1e-6 * (1 + want.sum)) << classes;
      EXPECT_EQ(got.correct, want.correct) << classes;
      ExpectClose(logits, gradient, 4 * Epsilon(dtype), 1e-7, "dlogits");
    }
  }
}

// A head that computes its rows in blocks must add up the losses that it would in one.
TEST(CrossEntropyTest, BlocksOfRowsContinueTheSums) {
  constexpr int64_t kRows = 11, kClasses = 37;
  const Values values = RandomMatrix(kRows, kClasses, 4, -8, 8);
  const std::vector<int32_t> targets = Targets(kRows, kClasses);
  Tensor whole(DType::kFloat32, values);
  const Result want = Compute(kRows, targets, 1, &whole);
  Result sum;
  for (int64_t first = 0; first < kRows; first += 4) {
    const int64_t rows = std::min<int64_t>(4, kRows - first);
    const auto begin = values.begin() + first * kClasses;
    Tensor block(DType::kFloat32, Values(begin, begin + rows * kClasses));
    const std::vector<int32_t> of_block(targets.begin() + first, targets.begin() + first + rows);
    sum = Compute({.rows = rows, .classes = kClasses}, of_block, 1, &block, &sum);
  }
  EXPECT_NEAR(sum.loss, want.loss, 1e-7 * want.loss);
  EXPECT_EQ(sum.correct, want.correct);
}

TEST(CrossEntropyTest, SoftCapForwardAndBackward) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t classes : {1, 16, 17, 1001}) {
      constexpr float kCap = 3;
      const Values values = Rounded(RandomMatrix(3, classes, 5, -8, 8), dtype);
      const std::vector<int32_t> targets = Targets(3, classes);
      Tensor logits(dtype, values);
      KernelsUnderTest().soft_cap({}, dtype, 3 * classes, kCap, logits.data());
      ExpectClose(logits, twin::SoftCap(kCap, values), 4 * Epsilon(dtype), 1e-7, "capped");
      const twin::Loss want = twin::CrossEntropy(3, classes, values, targets, kCap);
      const CrossEntropyShape shape{
          .dtype = dtype, .rows = 3, .classes = classes, .soft_cap = kCap};
      const Result got = Compute(shape, targets, 1, &logits);
      EXPECT_NEAR(got.loss, want.sum, 4 * Epsilon(dtype) * (1 + want.sum));
      // The slope 1 - tanh^2 is that of the rounded tanh, as PyTorch's is.
      ExpectClose(logits, want.dlogits, 8 * Epsilon(dtype), 4 * Epsilon(dtype), "dlogits");
    }
  }
}

TEST(CrossEntropyTest, SoftCapKeepsExtremesAndNaN) {
  Tensor logits(DType::kFloat32, Values{1e4, -1e4, 0, 1e-6, std::nan("")});
  KernelsUnderTest().soft_cap({}, DType::kFloat32, 5, 30, logits.data());
  const Values capped = logits.ToValues();
  EXPECT_NEAR(capped[0], 30, 1e-4);
  EXPECT_NEAR(capped[1], -30, 1e-4);
  EXPECT_EQ(capped[2], 0);
  EXPECT_NEAR(capped[3], 1e-6, 1e-12);
  EXPECT_TRUE(std::isnan(capped[4]));
}

TEST(CrossEntropyTest, ExtremeLogitsHaveExactGradients) {
  Tensor logits(DType::kFloat32, Values{1e4, -1e4, 9999, -1e4, 1e4, 1e4});
  const Result got = Compute(2, {0, 0}, 1, &logits);
  const Values logit_gradients = logits.ToValues();
  const double p = std::exp(-1.0) / (1 + std::exp(-1.0));
  EXPECT_NEAR(got.loss, std::log1p(std::exp(-1.0)) + 2e4 + std::log(2.0), 1e-6);
  const Values want = {-p, 0, p, -1, 0.5, 0.5};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(logit_gradients[i], want[i], 1e-6) << i;
}

}  // namespace
}  // namespace sluice
