#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

struct Case {
  LinearShape shape;
  std::string Name() const {
    return absl::StrFormat(
        "%s [%d, %d] x %s [%d, %d]%s%s, activations %d and %d", DTypeName(shape.dtype), shape.rows,
        shape.in, DTypeName(shape.weight_dtype), shape.in, shape.out,
        shape.weight_transposed ? ", transposed" : "", shape.bias ? ", bias" : "",
        static_cast<int>(shape.activation), static_cast<int>(shape.input_activation));
  }
};

std::vector<Case> Cases() {
  const int64_t sizes[][3] = {{1, 1, 1},     {1, 5, 3},     {2, 16, 32},  {3, 17, 33},
                              {7, 31, 1},    {33, 1, 47},   {64, 64, 64}, {65, 100, 24},
                              {128, 96, 10}, {130, 48, 257}};
  std::vector<Case> cases;
  int variant = 0;
  const std::pair<DType, DType> types[] = {{DType::kFloat32, DType::kFloat32},
                                           {DType::kBFloat16, DType::kFloat32},
                                           {DType::kBFloat16, DType::kBFloat16}};
  for (const auto& [dtype, weight_dtype] : types) {
    for (const auto& size : sizes) {
      for (const bool transposed : {false, true}) {
        // Every size meets every flag; the activations take turns.
        const auto activation = static_cast<Activation>(variant % 4);
        const auto input_activation = static_cast<Activation>(variant / 4 % 4);
        cases.push_back({{.rows = size[0],
                          .in = size[1],
                          .out = size[2],
                          .dtype = dtype,
                          .weight_dtype = weight_dtype,
                          .weight_transposed = transposed,
                          .bias = variant % 2 == 0,
                          .activation = activation,
                          .input_activation = input_activation}});
        ++variant;
      }
    }
  }
  return cases;
}

// The operands of a case, rounded as the kernel sees them.
struct Operands {
  explicit Operands(const LinearShape& s)
      : x(Rounded(RandomMatrix(s.rows, s.in, 1), s.dtype)),
        weight(Rounded(RandomMatrix(s.in, s.out, 2), DType::kFloat32)),
        seen_weight(Rounded(weight, s.dtype)),
        // A device may round the bias to the result's type.
        bias(Rounded(RandomValues(static_cast<size_t>(s.out), 3), s.dtype)),
        residual(Rounded(RandomMatrix(s.rows, s.out, 4), s.dtype)),
        dy(Rounded(RandomMatrix(s.rows, s.out, 5), s.dtype)),
        before(Rounded(RandomMatrix(s.rows, s.in, 6, -3, 3), s.dtype)) {}
  Values x, weight, seen_weight, bias, residual, dy, before;
};

// cuBLASLt rounds some bf16 products before it adds a bias or a residual to them (seen on an H200,
// at small shapes): so much may a sum be off by that, where it is the product's that is large.
double RoundedBefore(const LinearShape& shape, const Values& product) {
  if (!absl::StartsWith(KernelsUnderTest().device, "cuda")) return 0;
  double largest = 0;
  for (const double value : product) largest = std::max(largest, std::abs(value));
  return Epsilon(shape.dtype) * largest;
}

class LinearTest : public testing::TestWithParam<Case> {
 protected:
  LinearTest()
      : shape_(GetParam().shape),
        linear_(KernelsUnderTest().make_linear(shape_)),
        values_(shape_),
        weight_(shape_.weight_dtype, values_.weight),
        bias_(DType::kFloat32, values_.bias),
        packed_(linear_->packed_bytes()) {
    linear_->Pack({}, weight_.data(), bias(), packed_.data());
  }

  const float* bias() { return shape_.bias ? bias_.floats() : nullptr; }

  const LinearShape shape_;
  const std::unique_ptr<Linear> linear_;
  const Operands values_;
  Tensor weight_, bias_;
  Workspace packed_;
};

TEST_P(LinearTest, ForwardIsProductPlusBiasPlusResidual) {
  const Tensor x(shape_.dtype, values_.x);
  const Tensor residual(shape_.dtype, values_.residual);
  for (const bool with_residual : {false, true}) {
    Values want = twin::Product(shape_.rows, shape_.in, shape_.out, values_.x, false,
                                values_.seen_weight, shape_.weight_transposed);
    double tolerance = SumTolerance(shape_.in);
    if (shape_.bias || with_residual) tolerance += RoundedBefore(shape_, want);
    for (size_t i = 0; i < want.size(); ++i) {
      if (shape_.bias) want[i] += values_.bias[i % values_.bias.size()];
      if (with_residual) want[i] += values_.residual[i];
    }
    Tensor y(shape_.dtype, want.size());
    Tensor activated(shape_.dtype, want.size());
    Workspace workspace(linear_->forward_workspace());
    const bool activates = shape_.activation != Activation::kNone;
    linear_->Forward({}, x.data(), weight_.data(), packed_.data(), bias(),
                     with_residual ? residual.data() : nullptr, y.data(),
                     activates ? activated.data() : nullptr, workspace.data());
    ExpectClose(y, want, Epsilon(shape_.dtype), tolerance, GetParam().Name());
    if (!activates) continue;
    for (size_t i = 0; i < want.size(); ++i) {
      want[i] = twin::Activate(shape_.activation, y.Get(i));
    }
    ExpectClose(activated, want, Epsilon(shape_.dtype), 1e-6, GetParam().Name() + ", activated");
  }
}

TEST_P(LinearTest, InputGradient) {
  Values want = twin::Product(shape_.rows, shape_.out, shape_.in, values_.dy, false,
                              values_.seen_weight, !shape_.weight_transposed);
  for (size_t i = 0; i < want.size(); ++i) {
    want[i] *= twin::ActivationSlope(shape_.input_activation, values_.before[i]);
  }
  const Tensor dy(shape_.dtype, values_.dy);
  const Tensor before(shape_.dtype, values_.before);
  Tensor dx(shape_.dtype, want.size());
  Workspace workspace(linear_->input_grad_workspace());
  linear_->BackwardInput({}, dy.data(), weight_.data(), packed_.data(), before.data(), dx.data(),
                         workspace.data());
  ExpectClose(dx, want, 2 * Epsilon(shape_.dtype), 2 * SumTolerance(shape_.out) + 1e-6,
              GetParam().Name());
}

TEST_P(LinearTest, InputGradientIsAddedAndRoundedOnce) {
  LinearShape shape = shape_;
  shape.input_activation = Activation::kNone;
  shape.add_input_grad = true;
  const std::unique_ptr<Linear> linear = KernelsUnderTest().make_linear(shape);
  Workspace packed(linear->packed_bytes());
  linear->Pack({}, weight_.data(), bias(), packed.data());
  Values want = twin::Product(shape.rows, shape.out, shape.in, values_.dy, false,
                              values_.seen_weight, !shape.weight_transposed);
  const double tolerance = SumTolerance(shape.out) + RoundedBefore(shape, want);
  for (size_t i = 0; i < want.size(); ++i) want[i] += values_.before[i];
  const Tensor dy(shape.dtype, values_.dy);
  Tensor dx(shape.dtype, values_.before);
  Workspace workspace(linear->input_grad_workspace());
  linear->BackwardInput({}, dy.data(), weight_.data(), packed.data(), nullptr, dx.data(),
                        workspace.data());
  ExpectClose(dx, want, Epsilon(shape.dtype), tolerance, GetParam().Name());
}

TEST_P(LinearTest, WeightGradientOverwritesThenAccumulates) {
  const bool transposed = shape_.weight_transposed;
  const Values product =
      transposed
          ? twin::Product(shape_.out, shape_.rows, shape_.in, values_.dy, true, values_.x, false)
          : twin::Product(shape_.in, shape_.rows, shape_.out, values_.x, true, values_.dy, false);

  const Tensor x(shape_.dtype, values_.x);
  const Tensor dy(shape_.dtype, values_.dy);
  Tensor dw(DType::kFloat32, product.size());
  Workspace workspace(linear_->weight_grad_workspace());
  const double tolerance = SumTolerance(2 * shape_.rows);
  for (const int times : {1, 2}) {
    workspace.Poison();
    linear_->BackwardWeight({}, x.data(), dy.data(), dw.floats(), times > 1, workspace.data());
    Values want = product;
    for (double& value : want) value *= times;
    ExpectClose(dw, want, 1e-6, tolerance, GetParam().Name() + ", dW");
  }
}

TEST_P(LinearTest, WeightsOfTheProductsTypeAreUsedAsTheyAre) {
  if (shape_.dtype != shape_.weight_dtype) return;
  LinearShape shape = shape_;  // a bias may have a copy
  shape.bias = false;
  EXPECT_EQ(KernelsUnderTest().make_linear(shape)->packed_bytes(), 0u);
}

// Values of rows that are `to` long from rows that are `from` long; what is new is 0.
Values Widened(const Values& values, int64_t from, int64_t to) {
  Values wide;
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(from)) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(i);
    wide.insert(wide.end(), row, row + from);
    wide.resize(wide.size() + static_cast<size_t>(to - from));
  }
  return wide;
}

// Outputs of which 8, the fewest that are multiplied by themselves, are none, some and all.
TEST(PaddedLinearTest, IsTheProductWithoutPaddingAndZeros) {
  const int64_t unit = KernelsUnderTest().head_limits.width_unit;
  if (unit == 1) GTEST_SKIP() << "these kernels do not pad";
  const int64_t sizes[][3] = {{5, 16, 17}, {33, 24, 3}, {7, 8, 40}, {20, 48, 257}, {1, 1, 1}};
  for (const auto& size : sizes) {
    SCOPED_TRACE(testing::Message() << size[0] << ", " << size[1] << ", " << size[2]);
    LinearShape shape = {.rows = size[0],
                         .in = size[1],
                         .out = size[2],
                         .dtype = DType::kBFloat16,
                         .weight_transposed = true,
                         .bias = false};
    shape.padded_out = PaddedWidth(shape.out, KernelsUnderTest().head_limits);
    const Operands values(shape);
    const std::unique_ptr<Linear> linear = KernelsUnderTest().make_linear(shape);
    Values rows = values.weight;  // and rows of zeros
    rows.resize(static_cast<size_t>(shape.in * shape.padded_out));
    const Tensor weight(shape.weight_dtype, rows), x(shape.dtype, values.x);
    const Tensor dy(shape.dtype, Widened(values.dy, shape.out, shape.padded_out));
    Workspace packed(linear->packed_bytes());
    linear->Pack({}, weight.data(), nullptr, packed.data());

    Tensor y(shape.dtype, static_cast<size_t>(shape.rows * shape.padded_out));
    Workspace forward(linear->forward_workspace());
    linear->Forward({}, x.data(), weight.data(), packed.data(), nullptr, nullptr, y.data(), nullptr,
                    forward.data());
    const Values product =
        twin::Product(shape.rows, shape.in, shape.out, values.x, false, values.seen_weight, true);
    ExpectClose(y, Widened(product, shape.out, shape.padded_out), Epsilon(shape.dtype),
                SumTolerance(shape.in), "y");
    for (int64_t r = 0; r < shape.rows; ++r) {
      for (int64_t o = shape.out; o < shape.padded_out; ++o)
        ASSERT_EQ(y.Get(static_cast<size_t>(r * shape.padded_out + o)), 0);
    }

    Tensor dx(shape.dtype, values.x.size());
    Workspace input_grad(linear->input_grad_workspace());
    linear->BackwardInput({}, dy.data(), weight.data(), packed.data(), nullptr, dx.data(),
                          input_grad.data());
    ExpectClose(
        dx,
        twin::Product(shape.rows, shape.out, shape.in, values.dy, false, values.seen_weight, false),
        2 * Epsilon(shape.dtype), 2 * SumTolerance(shape.out), "dx");

    Tensor dw(DType::kFloat32, values.weight.size());
    Workspace weight_grad(linear->weight_grad_workspace());
    Values want = twin::Product(shape.out, shape.rows, shape.in, values.dy, true, values.x, false);
    for (const bool accumulate : {false, true}) {
      linear->BackwardWeight({}, x.data(), dy.data(), dw.floats(), accumulate, weight_grad.data());
      for (double& value : want) value *= accumulate ? 2 : 1;
      ExpectClose(dw, want, 1e-6, SumTolerance(2 * shape.rows), "dW");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest, testing::ValuesIn(Cases()),
                         [](const auto& param_info) {
                           const LinearShape& s = param_info.param.shape;
                           return absl::StrFormat("%s_%s_%d_%d_%d%s", DTypeName(s.dtype),
                                                  DTypeName(s.weight_dtype), s.rows, s.in, s.out,
                                                  s.weight_transposed ? "_transposed" : "");
                         });

}  // namespace
}  // namespace sluice
