#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "models/layers/layer.h"
#include "tests/models/layers/test_models.h"

namespace sluice {
namespace {

std::vector<float> Initial(const ParameterDecl& decl, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(ElementCount(decl.shape)), -7.0f);
  InitializeParameter(decl, seed, values.data());
  return values;
}

ParameterDecl Normal(std::string name, Shape shape, float stddev = 0.02f) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .init = ParameterDecl::Init::kNormal,
          .stddev = stddev,
          .tied_to = ""};
}

TEST(InitializeTest, DependsOnSeedAndNameAlone) {
  const std::vector<float> a = Initial(Normal("a", {64, 3}), 1);
  EXPECT_EQ(Initial(Normal("a", {64, 3}), 1), a);
  EXPECT_NE(Initial(Normal("a", {64, 3}), 2), a);
  EXPECT_NE(Initial(Normal("b", {64, 3}), 1), a);
  // Nor on how many values are asked for: a longer one starts the same.
  const std::vector<float> longer = Initial(Normal("a", {197}), 1);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), longer.begin()));
}

TEST(InitializeTest, ATiedParameterEqualsItsTwin) {
  ParameterDecl head = Normal("lm_head.weight", {11, 12});
  head.tied_to = "transformer.wte.weight";
  EXPECT_EQ(Initial(head, 3), Initial(Normal("transformer.wte.weight", {11, 12}), 3));
}

TEST(InitializeTest, NormalHasItsMomentsAndItsTails) {
  constexpr float kStddev = 0.02f;
  constexpr int kCount = 1 << 20;
  double sum = 0, squares = 0, fourth = 0;
  int beyond_two = 0;
  for (float value : Initial(Normal("w", {kCount}, kStddev), 1)) {
    const double z = double{value} / kStddev;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    beyond_two += std::abs(z) > 2;
  }
  // Five standard errors of each statistic.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(fourth / kCount, 3, 5 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(beyond_two / double{kCount}, 0.0455003, 5 * std::sqrt(0.0434 / kCount));
}

TEST(InitializeTest, NeighboursAndNamesAreUncorrelated) {
  constexpr int kCount = 1 << 18;
  const std::vector<float> a = Initial(Normal("h.0", {kCount}, 1), 1);
  const std::vector<float> b = Initial(Normal("h.1", {kCount}, 1), 1);
  const std::vector<float> c = Initial(Normal("h.0", {kCount}, 1), 2);
  double with_next = 0, with_name = 0, with_seed = 0;
  for (size_t i = 0; i + 1 < a.size(); ++i) {
    with_next += double{a[i]} * a[i + 1];
    with_name += double{a[i]} * b[i];
    with_seed += double{a[i]} * c[i];
  }
  const double bound = 5 * std::sqrt(kCount);
  EXPECT_LT(std::abs(with_next), bound);
  EXPECT_LT(std::abs(with_name), bound);
  EXPECT_LT(std::abs(with_seed), bound);
}

TEST(InitializeTest, ConstantsAreConstant) {
  ParameterDecl decl = Normal("norm", {5});
  decl.init = ParameterDecl::Init::kOnes;
  EXPECT_THAT(Initial(decl, 1), testing::Each(1.0f));
  decl.init = ParameterDecl::Init::kZeros;
  EXPECT_THAT(Initial(decl, 1), testing::Each(0.0f));
}

}  // namespace
}  // namespace sluice
