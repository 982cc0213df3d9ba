// Attention on a GPU against the CPU's kernel, over more shapes than cuda_emulation/ has time for.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "models/kernels/cuda_kernels.h"
#include "tests/models/kernels/cuda/gpu.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

AttentionShape Shape(DType dtype, int64_t batch, int64_t seq, int64_t heads, int64_t width) {
  return {.batch = batch, .seq = seq, .dim = heads * width, .heads = heads, .dtype = dtype};
}

// One shape's tensors, and both passes by either device's kernels.
class Problem {
 public:
  Problem(const Kernels& kernels, const AttentionShape& shape)
      : attention_(*kernels.make_attention(shape)),
        qkv_(shape.dtype, RandomMatrix(shape.batch * shape.seq, 3 * shape.dim, 1, -2, 2)),
        dout_(shape.dtype, RandomMatrix(shape.batch * shape.seq, shape.dim, 2)),
        out_(shape.dtype, dout_.size()),
        lse_(DType::kFloat32, static_cast<size_t>(shape.batch * shape.heads * shape.seq)),
        dqkv_(shape.dtype, qkv_.size()),
        workspace_(std::max(attention_->forward_workspace(), attention_->backward_workspace())) {}

  void Run(Stream stream) {
    attention_->Forward(stream, qkv_.data(), out_.data(), lse_.floats(), workspace_.data());
    attention_->Backward(stream, qkv_.data(), out_.data(), lse_.floats(), dout_.data(),
                         dqkv_.data(), workspace_.data());
  }

  const Tensor& out() const { return out_; }
  const Tensor& lse() const { return lse_; }
  const Tensor& dqkv() const { return dqkv_; }

 private:
  const std::unique_ptr<Attention> attention_;
  const Tensor qkv_, dout_;
  Tensor out_, lse_, dqkv_;
  Workspace workspace_;
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

std::string NameOf(const testing::TestParamInfo<AttentionShape>& of) {
  const AttentionShape& s = of.param;
  return absl::StrFormat("%s_batch%d_seq%d_heads%d_of%d", DTypeName(s.dtype), s.batch, s.seq,
                         s.heads, s.dim / s.heads);
}

// bf16: weights and their gradients are rounded once more, before the second products.
void ExpectLikeTheCpu(const Kernels& kernels, const AttentionShape& shape) {
  Problem cpu(CpuKernels(), shape);
  cpu.Run({});
  Problem gpu(kernels, shape);
  gpu.Run(GpuStream());
  FinishOnGpu(GpuStream());
  const bool narrow = shape.dtype == DType::kBFloat16;
  ExpectClose(gpu.out(), cpu.out().ToValues(), 2 * Epsilon(shape.dtype), narrow ? 5e-3 : 1e-5,
              "out");
  ExpectClose(gpu.lse(), cpu.lse().ToValues(), 1e-6, 1e-5, "lse");
  ExpectClose(gpu.dqkv(), cpu.dqkv().ToValues(), 2 * Epsilon(shape.dtype), narrow ? 0.03 : 5e-5,
              "dqkv");
}

class CudaAttentionTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(CudaAttentionTest, MatchesTheCpu) { ExpectLikeTheCpu(CudaKernels(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionTest, testing::ValuesIn(Shapes()), NameOf);

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
  EXPECT_EQ(alone.out().Bits(), beside.out().Bits());
  EXPECT_EQ(alone.lse().Bits(), beside.lse().Bits());
  EXPECT_EQ(alone.dqkv().Bits(), beside.dqkv().Bits());
}

TEST(CudaAttentionBitsTest, NothingElseMatters) {
  ExpectSameBits(CudaKernels(), DType::kBFloat16, 700);
  ExpectSameBits(CudaKernels(), DType::kFloat32, 700);
}

class CudnnAttentionBitsTest : public testing::Test {
 protected:
  void SetUp() override {
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
INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttentionTest, testing::ValuesIn(CudnnShapes()), NameOf);

TEST_F(CudnnAttentionBitsTest, NothingElseMatters) {
  for (const int64_t seq : {64, 700, 1024}) {
    ExpectSameBits(CudaKernels(CudaAttention::kCudnn), DType::kBFloat16, seq);
  }
}

}  // namespace
}  // namespace sluice
