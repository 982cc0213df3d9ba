// Attention on a GPU against the CPU's kernel, over more shapes than cuda_emulation/ has time for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "models/kernels/cuda_kernels.h"
#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/cuda/gpu.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

AttentionShape Shape(DType dtype, int64_t batch, int64_t seq, int64_t heads, int64_t width) {
  return PlainShape(dtype, batch, seq, heads, width);
}

// One problem's tensors, and both passes by either device's kernels.
class Problem {
 public:
  Problem(const Kernels& kernels, const AttentionShape& shape, const twin::Starts& starts = {})
      : attention_(*kernels.make_attention(shape)),
        tensors_(AttentionProblem(shape, starts), *attention_) {}

  void Run(Stream stream) { tensors_.Run(stream); }
  AttentionTensors<Tensor>& tensors() { return tensors_; }
  AttentionBits Bits() {
    return {tensors_.out().Bits(), tensors_.lse().Bits(), tensors_.gradients().Bits()};
  }

 private:
  const std::unique_ptr<Attention> attention_;
  AttentionTensors<Tensor> tensors_;
};

// Lengths around the tiles of 32, 64 and 128 rows, every way through the kernels, GPT-2's shapes.
std::vector<AttentionShape> Shapes() {
  std::vector<AttentionShape> shapes;
  for (const int64_t width : {64, 80, 96, 128}) {
    for (const int64_t seq : {1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 500, 1024}) {
      shapes.push_back(Shape(DType::kBFloat16, 2, seq, 3, width));
    }
  }
  for (const int64_t width : {1, 8, 20, 40, 63, 104, 136, 256}) {
    shapes.push_back(Shape(DType::kBFloat16, 2, 77, 2, width));
    shapes.push_back(Shape(DType::kFloat32, 2, 77, 2, width));
  }
  for (const int64_t seq : {1, 31, 32, 33, 200, 512}) {
    shapes.push_back(Shape(DType::kFloat32, 2, seq, 2, 64));
  }
  shapes.push_back(Shape(DType::kBFloat16, 1, 1024, 12, 64));
  shapes.push_back(Shape(DType::kBFloat16, 1, 1024, 25, 64));
  return shapes;
}

std::string NameOfParam(const testing::TestParamInfo<AttentionShape>& of) {
  return NameOf(of.param);
}

// bf16: weights and their gradients are rounded once more, before the second products.
void ExpectLikeTheCpu(const Kernels& kernels, const AttentionShape& shape,
                      const twin::Starts& starts = {}) {
  Problem cpu(CpuKernels(), shape, starts);
  cpu.Run({});
  Problem gpu(kernels, shape, starts);
  gpu.Run(GpuStream());
  FinishOnGpu(GpuStream());
  const bool narrow = shape.dtype == DType::kBFloat16;
  AttentionTensors<Tensor>&got = gpu.tensors(), &want = cpu.tensors();
  ExpectClose(got.out(), want.out().ToValues(), 2 * Epsilon(shape.dtype), narrow ? 5e-3 : 1e-5,
              "out");
  ExpectClose(got.lse(), want.lse().ToValues(), 1e-6, 1e-5, "lse");
  const auto group = static_cast<double>(shape.heads) / static_cast<double>(shape.kv_heads);
  ExpectCloseGradients(shape, got.gradients(), PartsOf(shape, want.gradients().ToValues()),
                       2 * Epsilon(shape.dtype), (narrow ? 0.03 : 5e-5) * std::sqrt(group));
}

class CudaAttentionTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(CudaAttentionTest, MatchesTheCpu) { ExpectLikeTheCpu(CudaKernels(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionTest, testing::ValuesIn(Shapes()), NameOfParam);

// Groups, windows, documents and caps, in bf16 on tensor cores.
std::vector<AttentionShape> Options() {
  std::vector<AttentionShape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t width : {64, 80, 128, 256}) {
      for (const int64_t window : {0, 1, 48, 200}) {
        shapes.push_back(
            Fused({.batch = 2,
                   .seq = 300,
                   .heads = 4,
                   .kv_heads = 2,
                   .width = width,
                   .window = window,
                   .soft_cap = width >= 128 && (window == 48 || window == 200) ? 1.5f : 0.0f,
                   .dtype = dtype}));
      }
    }
  }
  return shapes;
}

class CudaAttentionOptionsTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(CudaAttentionOptionsTest, MatchTheCpu) {
  ExpectLikeTheCpu(CudaKernels(), GetParam());
  ExpectLikeTheCpu(CudaKernels(), GetParam(), RandomStarts(GetParam(), 1));
}

INSTANTIATE_TEST_SUITE_P(Options, CudaAttentionOptionsTest, testing::ValuesIn(Options()),
                         NameOfParam);

// The same bits a second time, and while another stream keeps the GPU busy.
void ExpectSameBits(const Kernels& kernels, DType dtype, int64_t seq) {
  const Stream other = *Gpu().NewStream();
  const AttentionShape shape = Shape(dtype, 2, seq, 4, 64);
  Problem alone(kernels, shape);
  alone.Run(GpuStream());
  FinishOnGpu(GpuStream());
  Problem beside(kernels, shape);
  Problem busy(kernels, Shape(dtype, 4, 900, 4, 64));
  for (int i = 0; i < 5; ++i) {
    busy.Run(other);
    beside.Run(GpuStream());
  }
  FinishOnGpu(GpuStream());
  FinishOnGpu(other);
  EXPECT_TRUE(alone.Bits() == beside.Bits());
}

TEST(CudaAttentionBitsTest, NothingElseMatters) {
  ExpectSameBits(CudaKernels(), DType::kBFloat16, 700);
  ExpectSameBits(CudaKernels(), DType::kFloat32, 700);
}

class CudnnAttentionBitsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SLUICE_TEST_ALIGNED") == nullptr)
      GTEST_SKIP() << "cuDNN takes no tensors off 16 bytes";
    const absl::Status status = PrepareCudaKernels(CudaAttention::kCudnn);
    if (!status.ok()) GTEST_SKIP() << status;
  }
};

class CudnnAttentionTest : public CudnnAttentionBitsTest,
                           public testing::WithParamInterface<AttentionShape> {};

TEST_P(CudnnAttentionTest, MatchesTheCpu) {
  ExpectLikeTheCpu(CudaKernels(CudaAttention::kCudnn), GetParam());
}

std::vector<AttentionShape> CudnnShapes() {
  std::vector<AttentionShape> shapes = Shapes();
  std::erase_if(shapes, [](const AttentionShape& s) { return !CheckCudnnAttention(s).ok(); });
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttentionTest, testing::ValuesIn(CudnnShapes()), NameOfParam);

TEST_F(CudnnAttentionBitsTest, NothingElseMatters) {
  for (const int64_t seq : {64, 700, 1024}) {
    ExpectSameBits(CudaKernels(CudaAttention::kCudnn), DType::kBFloat16, seq);
  }
}

}  // namespace
}  // namespace sluice
