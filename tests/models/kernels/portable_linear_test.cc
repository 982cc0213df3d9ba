// What linear_test.cc does not ask of the products that every processor computes: more than one
// tile, and threads. Both types of values run the same way.
#include <gtest/gtest.h>
#include <omp.h>

#include <memory>
#include <vector>

#include "models/kernels/portable_kernels.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

// More than a tile of 128 x 1024 in every direction, and not whole ones.
constexpr int64_t kRows = 131, kIn = 1040, kOut = 1027;

struct Results {
  explicit Results(DType dtype)
      : y(dtype, size_t{kRows * kOut}),
        dx(dtype, size_t{kRows * kIn}),
        dw(DType::kFloat32, size_t{kIn * kOut}) {}
  std::vector<std::vector<char>> Bits() const { return {y.Bits(), dx.Bits(), dw.Bits()}; }
  Tensor y, dx, dw;
};

class PortableLinearTest : public testing::TestWithParam<DType> {
 protected:
  // Everything that a layer asks of a map, with weights as they are stored in `shape`.
  std::unique_ptr<Results> Run(const LinearShape& shape) const {
    const auto linear = PortableCpuKernels().make_linear(shape);
    const DType dtype = shape.dtype;
    const Tensor x(dtype, x_), dy(dtype, dy_), residual(dtype, residual_);
    Tensor weight(DType::kFloat32, weight_), bias(DType::kFloat32, bias_);
    auto out = std::make_unique<Results>(dtype);
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
    return {.rows = kRows,
            .in = kIn,
            .out = kOut,
            .dtype = GetParam(),
            .weight_transposed = transposed};
  }

  const Values x_ = Rounded(RandomMatrix(kRows, kIn, 1), GetParam());
  const Values dy_ = Rounded(RandomMatrix(kRows, kOut, 2), GetParam());
  const Values residual_ = Rounded(RandomMatrix(kRows, kOut, 3), GetParam());
  const Values weight_ = Rounded(RandomMatrix(kIn, kOut, 4), DType::kFloat32);
  const Values bias_ = Rounded(RandomValues(kOut, 5), DType::kFloat32);
};

TEST_P(PortableLinearTest, TilesMakeUpTheWhole) {
  const Values weight = Rounded(weight_, GetParam());
  for (const bool transposed : {false, true}) {
    const auto results = Run(Shape(transposed));
    Values y = twin::Product(kRows, kIn, kOut, x_, false, weight, transposed);
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias_[i % bias_.size()] + residual_[i];
    ExpectClose(results->y, y, Epsilon(GetParam()), SumTolerance(kIn), "y");
    ExpectClose(results->dx, twin::Product(kRows, kOut, kIn, dy_, false, weight, !transposed),
                Epsilon(GetParam()), SumTolerance(kOut), "dx");
    Values dw = transposed ? twin::Product(kOut, kRows, kIn, dy_, true, x_, false)
                           : twin::Product(kIn, kRows, kOut, x_, true, dy_, false);
    for (double& value : dw) value *= 2;  // overwritten, then added to
    ExpectClose(results->dw, dw, 1e-6, SumTolerance(2 * kRows), "dw");
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

INSTANTIATE_TEST_SUITE_P(Types, PortableLinearTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& param_info) { return DTypeName(param_info.param); });

}  // namespace
}  // namespace sluice
