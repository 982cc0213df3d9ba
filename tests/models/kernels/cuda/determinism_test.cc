// On a GPU: one shape, one result to the bit, whichever object computes it, whatever lies in the
// work areas and whatever runs beside it.
#include <gtest/gtest.h>

#include <array>

#include "models/kernels/cuda_kernels.h"
#include "tests/models/kernels/cuda/gpu.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

using Bits = std::vector<std::vector<char>>;

Bits RunLinear(const LinearShape& shape) {
  const auto linear = KernelsUnderTest().make_linear(shape);
  const Tensor x(shape.dtype, RandomMatrix(shape.rows, shape.in, 1));
  Tensor weight(DType::kFloat32, RandomMatrix(shape.in, shape.out, 2));
  Tensor bias(DType::kFloat32, RandomMatrix(1, shape.out, 3));
  const Tensor dy(shape.dtype, RandomMatrix(shape.rows, shape.out, 4));
  Tensor y(shape.dtype, dy.size()), activated(shape.dtype, dy.size()), dx(shape.dtype, x.size());
  Tensor dw(DType::kFloat32, weight.size());
  Workspace packed(linear->packed_bytes());
  Workspace forward(linear->forward_workspace());
  Workspace input_grad(linear->input_grad_workspace());
  Workspace weight_grad(linear->weight_grad_workspace());
  linear->Pack({}, weight.floats(), bias.floats(), packed.data());
  linear->Forward({}, x.data(), weight.floats(), packed.data(), bias.floats(), nullptr, y.data(),
                  activated.data(), forward.data());
  linear->BackwardInput({}, dy.data(), weight.floats(), packed.data(), x.data(), dx.data(),
                        input_grad.data());
  for (const bool accumulate : {false, true}) {
    linear->BackwardWeight({}, x.data(), dy.data(), dw.floats(), accumulate, weight_grad.data());
  }
  return {y.Bits(), activated.Bits(), dx.Bits(), dw.Bits()};
}

// Copies that keep the memory busy while something else runs.
class Busy {
 public:
  Busy()
      : stream_(*Gpu().NewStream()), from_(*Gpu().Allocate(kBytes)), to_(*Gpu().Allocate(kBytes)) {
    for (int i = 0; i < 50; ++i) Gpu().Copy(stream_, to_.data(), from_.data(), size_t{kBytes});
  }
  ~Busy() { FinishOnGpu(stream_); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  static constexpr int64_t kBytes = int64_t{256} << 20;
  const Stream stream_;
  const DeviceMemory from_, to_;
};

TEST(CudaDeterminismTest, LinearRepeatsItselfBesideOtherWork) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [rows, in, out] : std::vector<std::array<int64_t, 3>>{
             {256, 384, 1152}, {256, 1536, 384}, {1024, 64, 64}, {33, 70, 19}}) {
      const LinearShape shape = {.rows = rows,
                                 .in = in,
                                 .out = out,
                                 .dtype = dtype,
                                 .activation = Activation::kGelu,
                                 .input_activation = Activation::kGelu};
      const Bits alone = RunLinear(shape);
      const Busy busy;
      EXPECT_EQ(RunLinear(shape), alone) << rows << " " << in << " " << out;
    }
  }
}

TEST(CudaDeterminismTest, RowKernelsRepeatThemselvesBesideOtherWork) {
  constexpr int64_t kRows = 700, kDim = 768;
  const DType dtype = DType::kBFloat16;
  const Kernels& k = KernelsUnderTest();
  const Tensor dy(dtype, RandomMatrix(kRows, kDim, 1)), x(dtype, RandomMatrix(kRows, kDim, 2));
  Tensor gamma(DType::kFloat32, RandomMatrix(1, kDim, 3));
  Tensor angles(DType::kFloat32, RandomMatrix(kRows, kDim / 6, 4));
  Reachable<int32_t> tokens;
  for (int32_t r = 0; r < kRows; ++r) tokens.push_back(r * 5 % 7);
  const auto run = [&] {
    Tensor mean(DType::kFloat32, size_t{kRows}), rstd(DType::kFloat32, size_t{kRows});
    Tensor y(dtype, x.size()), dx(dtype, x.size()), partial(DType::kFloat32, size_t{2 * kDim});
    Workspace norm(k.layer_norm_backward_workspace(kRows, kDim));
    k.layer_norm_forward({}, dtype, kRows, kDim, 1e-5f, x.data(), gamma.floats(), gamma.floats(),
                         y.data(), mean.floats(), rstd.floats());
    k.layer_norm_backward({}, dtype, kRows, kDim, dy.data(), x.data(), gamma.floats(),
                          mean.floats(), rstd.floats(), nullptr, dx.data(), partial.floats(),
                          norm.data());
    Tensor rms_y(dtype, x.size()), rms_dx(dtype, x.size());
    Tensor rrms(DType::kFloat32, size_t{kRows}), rms_partial(DType::kFloat32, size_t{kDim});
    k.rms_norm_forward({}, dtype, kRows, kDim, 1e-5f, 0, x.data(), gamma.floats(), nullptr,
                       rms_y.data(), rrms.floats());
    k.rms_norm_backward({}, dtype, kRows, kDim, 0, dy.data(), x.data(), gamma.floats(),
                        rrms.floats(), nullptr, rms_dx.data(), rms_partial.floats(), norm.data());
    Tensor logits(dtype, x.ToValues());
    Reachable<double> loss(1);
    Reachable<int64_t> correct(1);
    Workspace entropy(k.cross_entropy_workspace(kRows, kDim));
    k.cross_entropy({}, {.dtype = dtype, .rows = kRows, .classes = kDim}, logits.data(),
                    tokens.data(), 0.5f, false, loss.data(), correct.data(), entropy.data());
    Tensor dwte(DType::kFloat32, size_t{7 * kDim}), dwpe(DType::kFloat32, size_t{kRows * kDim});
    Workspace embedding(k.embedding_backward_workspace(kRows, kDim));
    k.embedding_backward({}, dtype, tokens.data(), nullptr, kRows, kRows, kDim, 7, kRows, 1,
                         dy.data(), dwte.floats(), dwpe.floats(), false, embedding.data());
    Tensor of_columns(DType::kFloat32, size_t{kDim});
    const SummedColumns summed = {kRows, kDim, dy.data(), of_columns.floats()};
    Workspace parts(k.column_sums_workspace({&summed, 1}));
    k.column_sums({}, dtype, {&summed, 1}, false, parts.data());
    const RopeShape heads = {
        .rows = kRows, .seq = kRows, .heads = 6, .width = kDim / 6, .stride = kDim, .dtype = dtype};
    Tensor turned(dtype, x.size()), turned_dx(dtype, x.size()), turned_dy(dtype, dy.ToValues());
    Tensor of_heads(DType::kFloat32, size_t{6 * kRows});
    Tensor head_partial(DType::kFloat32, size_t{kDim / 6});
    Workspace of_head_norm(k.rms_norm_backward_workspace(6 * kRows, kDim / 6));
    k.rms_norm_rope_forward({}, heads, 1e-5f, 0, x.data(), gamma.floats(), angles.floats(), nullptr,
                            turned.data(), of_heads.floats());
    k.rms_norm_rope_backward({}, heads, 0, turned_dy.data(), x.data(), gamma.floats(),
                             of_heads.floats(), angles.floats(), nullptr, turned_dx.data(),
                             head_partial.floats(), of_head_norm.data());
    const char* const bytes = reinterpret_cast<const char*>(loss.data());
    return Bits{turned.Bits(),      turned_dx.Bits(), head_partial.Bits(),
                y.Bits(),           mean.Bits(),      rstd.Bits(),
                dx.Bits(),          partial.Bits(),   dwte.Bits(),
                dwpe.Bits(),        logits.Bits(),    {bytes, bytes + sizeof(double)},
                rms_y.Bits(),       rrms.Bits(),      rms_dx.Bits(),
                rms_partial.Bits(), of_columns.Bits()};
  };
  const Bits alone = run();
  const Busy busy;
  EXPECT_EQ(run(), alone);
}

}  // namespace
}  // namespace sluice
