#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr int64_t kSeq = 11;

// Su et al. 2021, section 3.2.2.
Values Frequencies(int64_t pairs, double theta) {
  Values frequencies;
  for (int64_t i = 0; i < pairs; ++i) {
    frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
  }
  return Rounded(frequencies, DType::kFloat32);
}

std::vector<float> Floats(const Values& values) { return {values.begin(), values.end()}; }

std::vector<RopeShape> Shapes() {
  std::vector<RopeShape> shapes;
  for (const DType dtype : kTypes) {
    for (const int64_t width : {2, 6, 16, 34, 80, 128, 256}) {
      for (const int64_t heads : {1, 3}) {
        for (const int64_t gap : {0, 7, 16}) {
          const int64_t rows = width < 80 ? 3 * kSeq : kSeq + 1;
          shapes.push_back({rows, kSeq, heads, width, heads * width + gap, dtype});
        }
      }
    }
  }
  return shapes;
}

std::string NameOf(const RopeShape& s) {
  return absl::StrFormat("%s, %d heads of %d every %d", DTypeName(s.dtype), s.heads, s.width,
                         s.stride);
}

// Documents of some four rows, wherever a sequence begins.
Reachable<int32_t> Starts(int64_t rows) {
  Reachable<int32_t> starts(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    starts[static_cast<size_t>(r)] = static_cast<int32_t>(r % kSeq / 4 * 4);
  }
  return starts;
}

std::vector<int32_t> ToVector(const Reachable<int32_t>& values) {
  return {values.begin(), values.end()};
}

TEST(RopeTest, TableHoldsCosinesThenSines) {
  for (const int64_t pairs : {1, 3, 40, 64, 128, 257, 600}) {
    const Values frequencies = Frequencies(pairs, 10'000);
    const Values want = twin::RopeTable(kSeq, frequencies, 1.25);
    Tensor table(DType::kFloat32, want.size());
    // The table is made later than the call on a GPU; the frequencies need not live until then.
    std::vector<float> given = Floats(frequencies);
    KernelsUnderTest().rope_table({}, kSeq, pairs, given.data(), 1.25f, table.floats());
    ExpectClose(table, want, 1e-6, 1.5e-7, absl::StrFormat("%d pairs", pairs));
  }
}

// The angles of the first pair are the positions themselves, in radians.
TEST(RopeTest, TableIsExactAtFarPositions) {
  constexpr int64_t kFar = 131'073;
  const Values frequencies = Frequencies(2, 500'000);
  const Values want = twin::RopeTable(kFar, frequencies, 1);
  Tensor table(DType::kFloat32, want.size());
  KernelsUnderTest().rope_table({}, kFar, 2, Floats(frequencies).data(), 1, table.floats());
  ExpectClose(table, want, 1e-6, 1.2e-7, "far positions");
}

class RopeShapeTest : public testing::TestWithParam<RopeShape> {
 protected:
  RopeShapeTest()
      : shape_(GetParam()),
        n_(static_cast<size_t>(shape_.rows * shape_.stride)),
        table_(DType::kFloat32, twin::RopeTable(kSeq, Frequencies(shape_.width / 2, 10'000), 1.5)),
        values_(Rounded(RandomValues(n_, 2, -3, 3), shape_.dtype)) {}

  const RopeShape shape_;
  const size_t n_;
  Tensor table_;
  const Values values_;
};

TEST_P(RopeShapeTest, TurnsPairsAndLeavesTheRestOfTheRow) {
  const Reachable<int32_t> starts = Starts(shape_.rows);
  for (const bool documents : {false, true}) {
    const Values want = twin::Rope(shape_, table_.ToValues(),
                                   documents ? ToVector(starts) : std::vector<int32_t>(), values_);
    Tensor x(shape_.dtype, values_);
    KernelsUnderTest().rope({}, shape_, table_.floats(), documents ? starts.data() : nullptr, false,
                            x.data());
    // A difference of two products cancels: its error is that of the products.
    ExpectClose(x, want, Epsilon(shape_.dtype), 1e-6, NameOf(shape_));
    for (size_t i = 0; i < n_; ++i) {
      const auto column = static_cast<int64_t>(i) % shape_.stride;
      if (column >= shape_.heads * shape_.width) {
        ASSERT_EQ(x.Get(i), values_[i]) << column;
      }
    }
  }
}

// <R x, y> = <x, R^T y>, and R^T R x = magnitude^2 x.
TEST_P(RopeShapeTest, InverseIsTheGradientAndTurnsBack) {
  const Reachable<int32_t> starts = Starts(shape_.rows);
  const auto turned = [&](const Values& values, bool inverse) {
    Tensor x(shape_.dtype, values);
    KernelsUnderTest().rope({}, shape_, table_.floats(), starts.data(), inverse, x.data());
    return x.ToValues();
  };
  Values x = values_, y = Rounded(RandomValues(n_, 3, -3, 3), shape_.dtype);
  for (size_t i = 0; i < n_; ++i) {  // what lies between heads would count twice
    if (static_cast<int64_t>(i) % shape_.stride >= shape_.heads * shape_.width) x[i] = 0;
  }
  const Values forward = turned(x, false);
  const double size = std::sqrt(twin::Dot(x, x) * twin::Dot(y, y));
  EXPECT_NEAR(twin::Dot(forward, y), twin::Dot(x, turned(y, true)),
              2 * Epsilon(shape_.dtype) * size)
      << NameOf(shape_);
  const Values back = turned(forward, true);
  for (size_t i = 0; i < n_; ++i) {
    ASSERT_NEAR(back[i], 2.25 * x[i], 60 * Epsilon(shape_.dtype)) << NameOf(shape_);
  }
}

std::string CaseName(const testing::TestParamInfo<RopeShape>& param_info) {
  const RopeShape& s = param_info.param;
  return absl::StrFormat("%s_%d_%d_%d_%d", DTypeName(s.dtype), s.rows, s.heads, s.width, s.stride);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RopeShapeTest, testing::ValuesIn(Shapes()), CaseName);

std::vector<RopeShape> HeadShapes() {
  std::vector<RopeShape> shapes;
  for (const DType dtype : kTypes) {
    for (const int64_t width : {2, 6, 16, 18, 34, 64, 80, 96, 128, 256, 512, 514}) {
      for (const int64_t heads : {1, 3}) {
        shapes.push_back(
            {width < 80 ? 3 * kSeq : kSeq + 1, kSeq, heads, width, heads * width, dtype});
      }
    }
    // So many heads that each group of a GPU's lanes adds up several.
    constexpr int64_t kHeads = 7;
    for (const auto& [rows, width] : {std::pair(700, 64), std::pair(1900, 16), std::pair(300, 256)})
      shapes.push_back({rows, kSeq, kHeads, width, kHeads * width, dtype});
  }
  return Sample(shapes, 5);
}

// The norm of every head, turned: against the twins of norm and rotation, one after the other.
class NormRopeTest : public testing::TestWithParam<RopeShape> {
 protected:
  NormRopeTest()
      : shape_(GetParam()),
        heads_(shape_.rows * shape_.heads),
        n_(static_cast<size_t>(heads_ * shape_.width)),
        x_(Rounded(RandomValues(n_, 1, -2, 3), shape_.dtype)),
        gamma_(Rounded(RandomValues(static_cast<size_t>(shape_.width), 2), DType::kFloat32)),
        angles_(twin::RopeTable(kSeq, Frequencies(shape_.width / 2, 10'000), 1.25)),
        table_(DType::kFloat32, angles_),
        starts_(Starts(shape_.rows)) {}

  twin::Norm Norm(double offset) const {
    return twin::RmsNorm(heads_, shape_.width, static_cast<double>(kEpsilon), x_, Gains(offset));
  }
  Values Gains(double offset) const {
    Values gains = gamma_;
    for (double& gain : gains) gain += offset;
    return gains;
  }
  const int32_t* starts(bool documents) const { return documents ? starts_.data() : nullptr; }
  Values Turned(const Values& values, bool documents, bool inverse) const {
    Values angles = table_.ToValues();
    const auto width = static_cast<size_t>(shape_.width);
    for (size_t i = 0; i < angles.size(); ++i) {
      if (inverse && i % width >= width / 2) angles[i] = -angles[i];
    }
    return twin::Rope(shape_, angles, documents ? ToVector(starts_) : std::vector<int32_t>(),
                      values);
  }
  // Of two roundings where a device has both passes, and of differences of products.
  double Slack(const Values& values) const {
    double largest = 1;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    return 2 * (Epsilon(shape_.dtype) + 4e-6) * largest;
  }

  static constexpr float kEpsilon = 1e-5f;
  const RopeShape shape_;
  const int64_t heads_;
  const size_t n_;
  const Values x_, gamma_, angles_;
  Tensor table_;
  const Reachable<int32_t> starts_;
};

TEST_P(NormRopeTest, Forward) {
  const Tensor x(shape_.dtype, x_);
  Tensor gamma(DType::kFloat32, gamma_);
  for (const bool documents : {false, true}) {
    const float offset = documents ? 1.0f : 0.0f;
    const twin::Norm norm = Norm(static_cast<double>(offset));
    Tensor y(shape_.dtype, Values(n_, std::nan("")));
    Tensor rrms(DType::kFloat32, static_cast<size_t>(heads_));
    KernelsUnderTest().rms_norm_rope_forward({}, shape_, kEpsilon, offset, x.data(), gamma.floats(),
                                             table_.floats(), starts(documents), y.data(),
                                             rrms.floats());
    ExpectClose(y, Turned(norm.y, documents, false), Epsilon(shape_.dtype), Slack(norm.y),
                NameOf(shape_));
    ExpectClose(rrms, norm.rstd, 1e-6, 0, "rrms");
  }
}

TEST_P(NormRopeTest, Backward) {
  const Tensor x(shape_.dtype, x_);
  Tensor gamma(DType::kFloat32, gamma_);
  const Values dy_values = Rounded(RandomValues(n_, 4), shape_.dtype);
  for (const bool documents : {false, true}) {
    const float offset = documents ? 1.0f : 0.0f;
    const twin::Norm norm = Norm(static_cast<double>(offset));
    const Values turned = Turned(dy_values, documents, /*inverse=*/true);
    const twin::NormGradient want =
        twin::RmsNormBackward(heads_, shape_.width, static_cast<double>(kEpsilon), turned, x_,
                              Gains(static_cast<double>(offset)));
    Tensor rrms(DType::kFloat32, norm.rstd);
    const auto run = [&](float* partial) {
      Tensor dy(shape_.dtype, dy_values), dx(shape_.dtype, Values(n_, std::nan("")));
      Workspace workspace(KernelsUnderTest().rms_norm_backward_workspace(heads_, shape_.width));
      KernelsUnderTest().rms_norm_rope_backward(
          {}, shape_, offset, dy.data(), x.data(), gamma.floats(), rrms.floats(), table_.floats(),
          starts(documents), dx.data(), partial, workspace.data());
      const double sharpness = *std::max_element(norm.rstd.begin(), norm.rstd.end());
      ExpectClose(dx, want.dx, Epsilon(shape_.dtype), Slack(turned) * sharpness * (1 + sharpness),
                  NameOf(shape_));
      return dx.Bits();
    };
    Tensor partial(DType::kFloat32, static_cast<size_t>(shape_.width));
    const std::vector<char> with_sums = run(partial.floats());
    // The roundings of dy are independent.
    const double roundings = Epsilon(shape_.dtype) * 10 * std::sqrt(static_cast<double>(heads_));
    ExpectClose(partial, want.dgamma, 1e-5, 1e-4 + roundings, "dgamma");
    EXPECT_EQ(run(nullptr), with_sums) << "without the weights' gradients";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormRopeTest, testing::ValuesIn(HeadShapes()), CaseName);

TEST(RopeTest, NoHeadsToNormLeaveNoSums) {
  Tensor table(DType::kFloat32, twin::RopeTable(kSeq, Frequencies(2, 10'000), 1));
  Tensor gamma(DType::kFloat32, Values{1, 2, 3, 4}), partial(DType::kFloat32, Values(4, 7));
  const RopeShape shape = {.rows = 0, .seq = kSeq, .heads = 2, .width = 4, .stride = 8};
  Workspace workspace(KernelsUnderTest().rms_norm_backward_workspace(0, 4));
  KernelsUnderTest().rms_norm_rope_forward({}, shape, 1e-5f, 0, nullptr, gamma.floats(),
                                           table.floats(), nullptr, nullptr, nullptr);
  KernelsUnderTest().rms_norm_rope_backward({}, shape, 0, nullptr, nullptr, gamma.floats(), nullptr,
                                            table.floats(), nullptr, nullptr, partial.floats(),
                                            workspace.data());
  EXPECT_EQ(partial.ToValues(), Values(4, 0));
}

// A document has the same bits wherever in a sequence it begins.
TEST(RopeTest, PositionsBeginWhereADocumentDoes) {
  constexpr int64_t kWidth = 6, kFirst = 3;
  const Values document = RandomMatrix(kSeq - kFirst, kWidth, 4);
  Values late = RandomMatrix(kFirst, kWidth, 5);
  late.insert(late.end(), document.begin(), document.end());
  Tensor table(DType::kFloat32, twin::RopeTable(kSeq, Frequencies(kWidth / 2, 10'000), 1));
  Reachable<int32_t> starts(static_cast<size_t>(kSeq), 0);
  for (size_t r = kFirst; r < starts.size(); ++r) starts[r] = kFirst;
  Tensor alone(DType::kFloat32, document), packed(DType::kFloat32, late);
  RopeShape shape = {.rows = kSeq, .seq = kSeq, .heads = 1, .width = kWidth, .stride = kWidth};
  KernelsUnderTest().rope({}, shape, table.floats(), starts.data(), false, packed.data());
  shape.rows = kSeq - kFirst;
  KernelsUnderTest().rope({}, shape, table.floats(), nullptr, false, alone.data());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(packed.Get(kFirst * kWidth + i), alone.Get(i));
  }
}

TEST(RopeTest, NaNAndInfinityStay) {
  Tensor table(DType::kFloat32, twin::RopeTable(kSeq, Frequencies(2, 10'000), 1));
  for (const DType dtype : kTypes) {
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      Tensor x(dtype, Values{1, 2, 3, 4, 5, bad, 7, 8});
      const RopeShape shape = {
          .rows = 2, .seq = kSeq, .heads = 1, .width = 4, .stride = 4, .dtype = dtype};
      KernelsUnderTest().rope({}, shape, table.floats(), nullptr, false, x.data());
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(std::isfinite(x.Get(i)), i != 5 && i != 7) << i;
      }
    }
  }
}

TEST(RopeTest, NoRowsOrHeadsDoNothing) {
  Tensor table(DType::kFloat32, twin::RopeTable(kSeq, Frequencies(2, 10'000), 1));
  Tensor x(DType::kFloat32, Values{1, 2, 3, 4});
  KernelsUnderTest().rope({}, {.rows = 0, .seq = kSeq, .heads = 1, .width = 4, .stride = 4},
                          table.floats(), nullptr, false, x.data());
  KernelsUnderTest().rope({}, {.rows = 1, .seq = kSeq, .heads = 0, .width = 4, .stride = 4},
                          table.floats(), nullptr, false, x.data());
  EXPECT_EQ(x.ToValues(), (Values{1, 2, 3, 4}));
}

}  // namespace
}  // namespace sluice
