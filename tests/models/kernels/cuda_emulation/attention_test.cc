// The very bodies of the CUDA kernels of attention, run on the CPU, against the twin in fp64.
#include "models/kernels/cuda/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/models/kernels/cuda_emulation/attention_launch.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using cuda::attention::TileLayout;

// The CPU kernels' buffers lie one element off every alignment, which is what the tensor cores'
// kernels do not take; these are aligned, and guarded all the same.
class AlignedTensor {
 public:
  AlignedTensor(DType dtype, size_t n)
      : plain_(dtype, n), aligned_(n * static_cast<size_t>(SizeOf(dtype))) {}
  AlignedTensor(DType dtype, const Values& values)
      : plain_(dtype, values), aligned_(plain_.bytes()) {
    std::memcpy(aligned_.data(), plain_.data(), plain_.bytes());
  }

  void* data() { return aligned_.data(); }
  float* floats() { return static_cast<float*>(data()); }
  // A copy that ExpectClose reads.
  const Tensor& Read() {
    std::memcpy(plain_.data(), aligned_.data(), plain_.bytes());
    return plain_;
  }

 private:
  Tensor plain_;
  Workspace aligned_;
};

struct Result {
  std::vector<char> out, lse, dqkv;
  bool operator==(const Result&) const = default;
};

struct Problem {
  explicit Problem(const AttentionShape& problem_shape)
      : shape(problem_shape),
        qkv(Rounded(RandomMatrix(shape.batch * shape.seq, 3 * shape.dim, 1, -2, 2), shape.dtype)),
        gradient(Rounded(RandomMatrix(shape.batch * shape.seq, shape.dim, 2), shape.dtype)) {}

  // Both passes by CUDA's kernels, with buffers of this kind.
  template <class Buffer>
  Result Run(bool compare) const {
    const auto attention = *cuda::MakeAttention(shape);
    Buffer in(shape.dtype, qkv);
    Buffer out(shape.dtype, gradient.size());
    Buffer lse(DType::kFloat32, static_cast<size_t>(shape.batch * shape.heads * shape.seq));
    Workspace forward_workspace(attention->forward_workspace());
    attention->Forward({}, in.data(), out.data(), lse.floats(), forward_workspace.data());
    Buffer dout(shape.dtype, gradient);
    Buffer dqkv(shape.dtype, qkv.size());
    Workspace workspace(attention->backward_workspace());
    attention->Backward({}, in.data(), out.data(), lse.floats(), dout.data(), dqkv.data(),
                        workspace.data());
    if (compare) Compare(Values_(out), Values_(lse), Values_(dqkv));
    return {Values_(out).Bits(), Values_(lse).Bits(), Values_(dqkv).Bits()};
  }

  const AttentionShape shape;
  Values qkv;
  Values gradient;

 private:
  static const Tensor& Values_(Tensor& tensor) { return tensor; }
  static const Tensor& Values_(AlignedTensor& tensor) { return tensor.Read(); }

  // bf16: weights and their gradients are rounded once more, before the second products.
  void Compare(const Tensor& out, const Tensor& lse, const Tensor& dqkv) const {
    const bool narrow = shape.dtype == DType::kBFloat16;
    const twin::Attended want = twin::Attend(shape, qkv);
    ExpectClose(out, want.out, Epsilon(shape.dtype), narrow ? 5e-3 : 1e-5, "out");
    ExpectClose(lse, want.lse, 1e-6, 1e-5, "lse");
    ExpectClose(dqkv, twin::AttendBackward(shape, qkv, gradient), Epsilon(shape.dtype),
                narrow ? 0.03 : 3e-5, "dqkv");
  }
};

AttentionShape Shape(DType dtype, int64_t seq, int64_t width, int64_t batch, int64_t heads) {
  return {.batch = batch, .seq = seq, .dim = width * heads, .heads = heads, .dtype = dtype};
}

// Lengths around the tiles of 32, 64 and 128 rows; heads that fill a tile's width and that do not.
std::vector<AttentionShape> Shapes() {
  std::vector<AttentionShape> shapes;
  for (const int64_t seq : {1, 31, 64, 65, 127, 128, 129, 200, 300}) {
    shapes.push_back(Shape(DType::kBFloat16, seq, 64, 1, 1));
  }
  for (const int64_t width : {8, 40, 80, 96, 104, 128}) {
    shapes.push_back(Shape(DType::kBFloat16, 150, width, 1, 2));
  }
  shapes.push_back(Shape(DType::kBFloat16, 33, 64, 2, 3));
  for (const int64_t width : {1, 20, 63, 136, 256}) {  // by the plain kernels
    shapes.push_back(Shape(DType::kBFloat16, 45, width, 2, 2));
  }
  for (const int64_t seq : {1, 31, 32, 33, 100}) {
    shapes.push_back(Shape(DType::kFloat32, seq, 16, 2, 2));
  }
  for (const int64_t width : {1, 5, 64, 65, 128, 200, 256}) {
    shapes.push_back(Shape(DType::kFloat32, 40, width, 1, 2));
  }
  std::vector<AttentionShape> some;  // sanitizers make them many times slower
  for (size_t i = 0; i < shapes.size(); i += Trials(1, 3)) some.push_back(shapes[i]);
  return some;
}

class CudaAttentionEmulationTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(CudaAttentionEmulationTest, MatchesTheTwin) {
  Problem(GetParam()).Run<AlignedTensor>(/*compare=*/true);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionEmulationTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) {
                           const AttentionShape& s = param_info.param;
                           return absl::StrFormat("%s_seq%d_heads%d_of%d", DTypeName(s.dtype),
                                                  s.seq, s.heads, s.dim / s.heads);
                         });

TEST(CudaAttentionTest, TakesMisalignedTensors) {
  Problem(Shape(DType::kBFloat16, 70, 64, 1, 2)).Run<Tensor>(/*compare=*/true);
}

// Another order of blocks, warps and lanes, and copies that land at other times, find every missing
// barrier that a difference can show.
TEST(CudaAttentionTest, AnyOrderGivesTheSameBits) {
  for (const auto& [dtype, width] :
       {std::pair(DType::kBFloat16, int64_t{64}), std::pair(DType::kBFloat16, int64_t{128}),
        std::pair(DType::kFloat32, int64_t{24})}) {
    const Problem problem(Shape(dtype, 270, width, 1, 1));
    emulation::launch_seed = 0;
    const Result first = problem.Run<AlignedTensor>(/*compare=*/false);
    for (int seed = 1; seed <= Trials(4, 1); ++seed) {
      emulation::launch_seed = static_cast<uint64_t>(seed);
      EXPECT_TRUE(problem.Run<AlignedTensor>(false) == first) << "width " << width;
    }
  }
  emulation::launch_seed = 0;
}

// Position t must not change, by a single bit, when a later position does.
TEST(CudaAttentionTest, TheFutureDoesNotMatter) {
  constexpr int64_t kSeq = 200;
  constexpr int64_t kChanged = 141;
  constexpr int64_t kWidth = 64;
  Problem problem(Shape(DType::kBFloat16, kSeq, kWidth, 1, 1));
  const Result before = problem.Run<AlignedTensor>(false);
  for (size_t i = kChanged * 3 * kWidth; i < problem.qkv.size(); ++i) problem.qkv[i] = 9;
  const Result after = problem.Run<AlignedTensor>(false);
  constexpr std::ptrdiff_t kBytes = kChanged * kWidth * 2;
  EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + kBytes, after.out.begin()));
  EXPECT_FALSE(before.out == after.out);
}

// A diverged run must show, not be hidden by a maximum that drops NaNs.
TEST(CudaAttentionTest, NaNReachesTheOutput) {
  constexpr size_t kWidth = 64;
  Problem problem(Shape(DType::kBFloat16, 100, kWidth, 1, 1));
  problem.qkv[size_t{70} * 3 * kWidth + kWidth] = std::nan("");  // a key
  const Result result = problem.Run<AlignedTensor>(false);
  for (size_t t = 0; t < 100; ++t) {
    uint16_t bits;
    std::memcpy(&bits, result.out.data() + t * kWidth * 2, sizeof(bits));
    EXPECT_EQ((bits & 0x7FFF) > 0x7F80, t >= 70) << "position " << t;
  }
}

// Scores of several hundred overflow e^x unless the largest is taken off first.
TEST(CudaAttentionTest, LargeScoresStayFinite) {
  Problem problem(Shape(DType::kFloat32, 40, 16, 1, 1));
  for (double& value : problem.qkv) value *= 20;
  const auto attention = *cuda::MakeAttention(problem.shape);
  AlignedTensor in(DType::kFloat32, problem.qkv);
  AlignedTensor out(DType::kFloat32, size_t{40} * 16);
  AlignedTensor lse(DType::kFloat32, 40);
  attention->Forward({}, in.data(), out.data(), lse.floats(), nullptr);
  const twin::Attended want = twin::Attend(problem.shape, Rounded(problem.qkv, DType::kFloat32));
  ExpectClose(out.Read(), want.out, 1e-3, 1e-2, "out");
  ExpectClose(lse.Read(), want.lse, 1e-5, 1e-5, "lse");
}

// Wider heads do not fit in a GPU's shared memory.
TEST(CudaAttentionTest, HeadsThatAreTooWideAreRefused) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EXPECT_TRUE(cuda::MakeAttention(Shape(dtype, 8, 256, 1, 1)).ok());
    const absl::Status refused = cuda::MakeAttention(Shape(dtype, 8, 264, 1, 1)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                testing::HasSubstr("heads of 264 values; attention there takes at most 256"));
  }
}

// A matrix of 8 rows is read at once only if its rows lie in 8 different banks of 16 bytes.
template <int kWidth>
void ExpectNoConflicts() {
  using Layout = TileLayout<kWidth>;
  std::set<uint32_t> all;
  for (int first = 0; first < 64; first += 8) {
    for (int chunk = 0; chunk < Layout::kChunks; ++chunk) {
      std::set<uint32_t> banks;
      for (int row = first; row < first + 8; ++row) {
        const uint32_t offset = Layout::Offset(row, chunk);
        EXPECT_EQ(offset / Layout::kRowBytes, static_cast<uint32_t>(row));
        EXPECT_TRUE(all.insert(offset).second) << "two chunks at " << offset;
        banks.insert(offset % 128 / 16);
      }
      EXPECT_EQ(banks.size(), 8) << "width " << kWidth << ", chunk " << chunk;
    }
  }
}

TEST(CudaAttentionTileTest, MatricesLieInDifferentBanks) {
  ExpectNoConflicts<32>();
  ExpectNoConflicts<64>();
  ExpectNoConflicts<96>();
  ExpectNoConflicts<128>();
}

}  // namespace
}  // namespace sluice
