// What linear_test.cc does not ask of the products that every processor computes: more than one
// tile, and threads. Both types of values run the same way.
#include <gtest/gtest.h>
#include <omp.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/kernels/portable_kernels.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

struct Size {
  int64_t rows, in, out;
};

// Not whole tiles; those of the weight's gradient are of 128 x 1024, as are those of all products
// where the work area of narrow weights has no room for taller ones.
constexpr Size kSizes[] = {
    {200, 270, 259},    // two of 128 x 1024 below each other
    {131, 1040, 1027},  // 256 x 512
    {530, 1040, 1027},  // two of 512 x 256 below each other
};

struct Results {
  Results(DType dtype, const Size& size)
      : y(dtype, static_cast<size_t>(size.rows * size.out)),
        dx(dtype, static_cast<size_t>(size.rows * size.in)),
        dw(DType::kFloat32, static_cast<size_t>(size.in * size.out)) {}
  std::vector<std::vector<char>> Bits() const { return {y.Bits(), dx.Bits(), dw.Bits()}; }
  Tensor y, dx, dw;
};

class PortableLinearTest : public testing::TestWithParam<std::tuple<DType, Size>> {
 protected:
  // Everything that a layer asks of a map, with weights as they are stored in `shape`.
  std::unique_ptr<Results> Run(const LinearShape& shape) const {
    const auto linear = PortableCpuKernels().make_linear(shape);
    const DType dtype = shape.dtype;
    const Tensor x(dtype, x_), dy(dtype, dy_), residual(dtype, residual_);
    Tensor weight(DType::kFloat32, weight_), bias(DType::kFloat32, bias_);
    auto out = std::make_unique<Results>(dtype, size_);
    Workspace packed(linear->packed_bytes()), forward(linear->forward_workspace());
    Workspace input_grad(linear->input_grad_workspace());
    Workspace weight_grad(linear->weight_grad_workspace());
    linear->Pack({}, weight.floats(), bias.floats(), packed.data());
    linear->Forward({}, x.data(), weight.floats(), packed.data(), bias.floats(), residual.data(),
                    out->y.data(), nullptr, forward.data());
    linear->BackwardInput({}, dy.data(), weight.floats(), packed.data(), nullptr, out->dx.data(),
                          input_grad.data());
    for (const bool accumulate : {false, true}) {
      linear->BackwardWeight({}, x.data(), dy.data(), out->dw.floats(), accumulate,
                             weight_grad.data());
    }
    return out;
  }
  LinearShape Shape(bool transposed) const {
    return {.rows = size_.rows,
            .in = size_.in,
            .out = size_.out,
            .dtype = dtype_,
            .weight_transposed = transposed};
  }

  const DType dtype_ = std::get<DType>(GetParam());
  const Size size_ = std::get<Size>(GetParam());
  const Values x_ = Rounded(RandomMatrix(size_.rows, size_.in, 1), dtype_);
  const Values dy_ = Rounded(RandomMatrix(size_.rows, size_.out, 2), dtype_);
  const Values residual_ = Rounded(RandomMatrix(size_.rows, size_.out, 3), dtype_);
  const Values weight_ = Rounded(RandomMatrix(size_.in, size_.out, 4), DType::kFloat32);
  const Values bias_ = Rounded(RandomValues(size_.out, 5), DType::kFloat32);
};

TEST_P(PortableLinearTest, TilesMakeUpTheWhole) {
  const auto [rows, in, out] = size_;
  if (kSanitized && rows > 512) GTEST_SKIP() << "the twin is slow; the next test runs the tiles";
  const Values weight = Rounded(weight_, dtype_);
  for (const bool transposed : {false, true}) {
    const auto results = Run(Shape(transposed));
    Values y = twin::Product(rows, in, out, x_, false, weight, transposed);
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias_[i % bias_.size()] + residual_[i];
    ExpectClose(results->y, y, Epsilon(dtype_), SumTolerance(in), "y");
    ExpectClose(results->dx, twin::Product(rows, out, in, dy_, false, weight, !transposed),
                Epsilon(dtype_), SumTolerance(out), "dx");
    Values dw = transposed ? twin::Product(out, rows, in, dy_, true, x_, false)
                           : twin::Product(in, rows, out, x_, true, dy_, false);
    for (double& value : dw) value *= 2;  // overwritten, then added to
    ExpectClose(results->dw, dw, 1e-6, SumTolerance(2 * rows), "dw");
  }
}

TEST_P(PortableLinearTest, BitsDoNotDependOnTheNumberOfThreads) {
#ifdef SLUICE_THREAD_SANITIZER
  GTEST_SKIP() << "ThreadSanitizer does not see how libgomp's threads wait for each other";
#endif
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = Run(Shape(false))->Bits();
  for (const int threads : {2, 3, 8}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(Run(Shape(false))->Bits(), one) << threads << " threads";
    EXPECT_EQ(omp_get_max_threads(), threads) << "the caller's number is left alone";
  }
  omp_set_num_threads(before);
}

std::string NameOf(const testing::TestParamInfo<std::tuple<DType, Size>>& info) {
  const auto& [dtype, size] = info.param;
  return absl::StrCat(DTypeName(dtype), "_", size.rows, "x", size.in, "x", size.out);
}

INSTANTIATE_TEST_SUITE_P(Types, PortableLinearTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::ValuesIn(kSizes)),
                         NameOf);

}  // namespace
}  // namespace sluice
