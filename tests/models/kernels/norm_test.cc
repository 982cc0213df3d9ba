#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Case {
  int64_t rows, dim;
  DType dtype;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t dim : {2, 3, 8, 15, 16, 17, 31, 64, 100, 256, 384, 1000}) {
      for (const int64_t rows : {1, 5, 33}) cases.push_back({rows, dim, dtype});
    }
    // Rows that a GPU's warp holds in its registers, up to the longest for each type, and longer.
    for (const int64_t dim : {264, 768, 1024, 1032, 1600, 2048, 2056, 4096}) {
      for (const int64_t rows : {1, 3, 33}) cases.push_back({rows, dim, dtype});
    }
    // So many rows that each of its warps adds up several.
    for (const auto& [rows, dim] :
         {std::pair(1000, 64), std::pair(4100, 8), std::pair(1600, 776)}) {
      cases.push_back({rows, dim, dtype});
    }
  }
  return Sample(cases, 5);
}

class NormTest : public testing::TestWithParam<Case> {
 protected:
  // x lies within [low, high].
  NormTest(double low, double high)
      : rows_(GetParam().rows),
        dim_(GetParam().dim),
        dtype_(GetParam().dtype),
        n_(static_cast<size_t>(rows_ * dim_)),
        x_(Rounded(RandomValues(n_, 1, low, high), dtype_)),
        gamma_(Rounded(RandomValues(static_cast<size_t>(dim_), 2), DType::kFloat32)) {}

  // Of the root of a sum along a row, which 4 lanes may share.
  double RootTolerance() const { return 1e-6 * std::max(1.0, static_cast<double>(dim_) / 2000); }
  // Of sums over the rows, which may be added up one by one.
  double Slack() const { return 1e-5 * std::max(1.0, static_cast<double>(rows_) / 300); }

  const int64_t rows_, dim_;
  const DType dtype_;
  const size_t n_;
  const Values x_, gamma_;
};

class LayerNormTest : public NormTest {
 protected:
  LayerNormTest()
      : NormTest(2, 5),
        beta_(Rounded(RandomValues(static_cast<size_t>(dim_), 3), DType::kFloat32)),
        want_(twin::LayerNorm(rows_, dim_, static_cast<double>(kEpsilon), x_, gamma_, beta_)) {}

  const Values beta_;
  const twin::Norm want_;
};

class RmsNormTest : public NormTest {
 protected:
  RmsNormTest() : NormTest(-2, 3) {}

  Values Gains(float offset) const {
    Values gains = gamma_;
    for (double& gain : gains) gain += static_cast<double>(offset);
    return gains;
  }
  twin::Norm Twin(float offset) const {
    return twin::RmsNorm(rows_, dim_, static_cast<double>(kEpsilon), x_, Gains(offset));
  }
};

TEST_P(LayerNormTest, Forward) {
  const Tensor x(dtype_, x_);
  Tensor gamma(DType::kFloat32, gamma_);
  Tensor beta(DType::kFloat32, beta_);
  Tensor y(dtype_, n_);
  Tensor mean(DType::kFloat32, static_cast<size_t>(rows_));
  Tensor rstd(DType::kFloat32, static_cast<size_t>(rows_));
  KernelsUnderTest().layer_norm_forward({}, dtype_, rows_, dim_, kEpsilon, x.data(), gamma.floats(),
                                        beta.floats(), y.data(), mean.floats(), rstd.floats());
  // rstd is sharp where the row is nearly constant, so errors grow with it.
  const double sharpness = *std::max_element(want_.rstd.begin(), want_.rstd.end());
  ExpectClose(y, want_.y, Epsilon(dtype_), 2e-6 * (1 + sharpness), "y");
  ExpectClose(mean, want_.mean, 1e-6, 0, "mean");
  ExpectClose(rstd, want_.rstd, RootTolerance() * (1 + sharpness), 0, "rstd");
}

TEST_P(LayerNormTest, BackwardWithAndWithoutResidualInPlace) {
  const Values dy_values = Rounded(RandomValues(n_, 4), dtype_);
  const Values residual = Rounded(RandomValues(n_, 5), dtype_);
  const twin::NormGradient want =
      twin::LayerNormBackward(rows_, dim_, static_cast<double>(kEpsilon), dy_values, x_, gamma_);
  const Tensor x(dtype_, x_);
  const Tensor dy(dtype_, dy_values);
  Tensor gamma(DType::kFloat32, gamma_);
  Tensor mean(DType::kFloat32, want_.mean);
  Tensor rstd(DType::kFloat32, want_.rstd);
  Values partial_want = want.dgamma;
  partial_want.insert(partial_want.end(), want.dbeta.begin(), want.dbeta.end());
  const double sharpness = *std::max_element(want_.rstd.begin(), want_.rstd.end());
  for (const bool with_residual : {false, true}) {
    Tensor dx(dtype_, with_residual ? residual : Values(n_, std::nan("")));
    Tensor partial(DType::kFloat32, 2 * static_cast<size_t>(dim_));
    Workspace workspace(KernelsUnderTest().layer_norm_backward_workspace(rows_, dim_));
    KernelsUnderTest().layer_norm_backward(
        {}, dtype_, rows_, dim_, dy.data(), x.data(), gamma.floats(), mean.floats(), rstd.floats(),
        with_residual ? dx.data() : nullptr, dx.data(), partial.floats(), workspace.data());
    Values dx_want = want.dx;
    for (size_t i = 0; i < n_ && with_residual; ++i) dx_want[i] += residual[i];
    ExpectClose(dx, dx_want, Epsilon(dtype_), 3e-6 * sharpness * (1 + sharpness), "dx");
    ExpectClose(partial, partial_want, 1e-6, Slack() * (1 + sharpness), "dgamma, dbeta");
    Tensor alone(dtype_, with_residual ? residual : Values(n_, std::nan("")));
    KernelsUnderTest().layer_norm_backward(
        {}, dtype_, rows_, dim_, dy.data(), x.data(), gamma.floats(), mean.floats(), rstd.floats(),
        with_residual ? alone.data() : nullptr, alone.data(), nullptr, workspace.data());
    EXPECT_EQ(alone.ToValues(), dx.ToValues()) << "without the weights' gradients";
  }
}

TEST_P(RmsNormTest, Forward) {
  const Tensor x(dtype_, x_);
  Tensor gamma(DType::kFloat32, gamma_);
  const Values residual = Rounded(RandomValues(n_, 5), dtype_);
  for (const float offset : {0.0f, 1.0f}) {
    const twin::Norm want = Twin(offset);
    for (const bool with_residual : {false, true}) {
      Tensor y(dtype_, with_residual ? residual : Values(n_, std::nan("")));  // may be the residual
      Tensor rrms(DType::kFloat32, static_cast<size_t>(rows_));
      KernelsUnderTest().rms_norm_forward({}, dtype_, rows_, dim_, kEpsilon, offset, x.data(),
                                          gamma.floats(), with_residual ? y.data() : nullptr,
                                          y.data(), rrms.floats());
      Values y_want = want.y;
      for (size_t i = 0; i < n_ && with_residual; ++i) y_want[i] += residual[i];
      ExpectClose(y, y_want, Epsilon(dtype_), 4e-6, "y");
      ExpectClose(rrms, want.rstd, RootTolerance(), 0, "rrms");
    }
  }
}

TEST_P(RmsNormTest, BackwardWithAndWithoutResidualInPlace) {
  const Values dy_values = Rounded(RandomValues(n_, 4), dtype_);
  const Values residual = Rounded(RandomValues(n_, 5), dtype_);
  const Tensor x(dtype_, x_);
  const Tensor dy(dtype_, dy_values);
  Tensor gamma(DType::kFloat32, gamma_);
  for (const float offset : {0.0f, 1.0f}) {
    const twin::Norm norm = Twin(offset);
    const twin::NormGradient want = twin::RmsNormBackward(
        rows_, dim_, static_cast<double>(kEpsilon), dy_values, x_, Gains(offset));
    Tensor rrms(DType::kFloat32, norm.rstd);
    const double sharpness = *std::max_element(norm.rstd.begin(), norm.rstd.end());
    for (const bool with_residual : {false, true}) {
      Tensor dx(dtype_, with_residual ? residual : Values(n_, std::nan("")));
      Tensor partial(DType::kFloat32, static_cast<size_t>(dim_));
      Workspace workspace(KernelsUnderTest().rms_norm_backward_workspace(rows_, dim_));
      KernelsUnderTest().rms_norm_backward(
          {}, dtype_, rows_, dim_, offset, dy.data(), x.data(), gamma.floats(), rrms.floats(),
          with_residual ? dx.data() : nullptr, dx.data(), partial.floats(), workspace.data());
      Values dx_want = want.dx;
      for (size_t i = 0; i < n_ && with_residual; ++i) dx_want[i] += residual[i];
      ExpectClose(dx, dx_want, Epsilon(dtype_), 6e-6 * sharpness * (1 + sharpness), "dx");
      ExpectClose(partial, want.dgamma, 1e-6, Slack() * (1 + sharpness), "dgamma");
      Tensor alone(dtype_, with_residual ? residual : Values(n_, std::nan("")));
      KernelsUnderTest().rms_norm_backward(
          {}, dtype_, rows_, dim_, offset, dy.data(), x.data(), gamma.floats(), rrms.floats(),
          with_residual ? alone.data() : nullptr, alone.data(), nullptr, workspace.data());
      EXPECT_EQ(alone.ToValues(), dx.ToValues()) << "without the weights' gradients";
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return absl::StrFormat("%s_%d_%d", DTypeName(info.param.dtype), info.param.rows, info.param.dim);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LayerNormTest, testing::ValuesIn(Cases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Shapes, RmsNormTest, testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace sluice
