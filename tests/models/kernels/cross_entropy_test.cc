#include <gtest/gtest.h>

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

Result Compute(int64_t rows, const std::vector<int32_t>& targets, float grad_scale,
               Tensor* logits) {
  const Reachable<int32_t> reachable(targets.begin(), targets.end());
  Reachable<Result> result(1);
  const auto classes = static_cast<int64_t>(logits->size()) / rows;
  Workspace workspace(KernelsUnderTest().cross_entropy_workspace(rows, classes));
  KernelsUnderTest().cross_entropy({}, logits->dtype(), rows, classes, logits->data(),
                                   reachable.data(), grad_scale, &result[0].loss,
                                   &result[0].correct, workspace.data());
  return result[0];
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

}  // namespace
}  // namespace sluice
