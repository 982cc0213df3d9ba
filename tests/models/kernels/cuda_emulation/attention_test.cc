// The very bodies of the CUDA kernels of attention, run on the CPU, against the twin in fp64.
#include "models/kernels/cuda/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "tests/models/kernels/attention_problem.h"
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
  const Tensor& Copy() {
    std::memcpy(plain_.data(), aligned_.data(), plain_.bytes());
    return plain_;
  }

 private:
  Tensor plain_;
  Workspace aligned_;
};

const Tensor& Read(Tensor& tensor) { return tensor; }
const Tensor& Read(AlignedTensor& tensor) { return tensor.Copy(); }

// Both passes by CUDA's kernels, with buffers of this kind.
template <class Buffer>
AttentionBits RunWith(const AttentionProblem& problem) {
  const auto attention = *cuda::MakeAttention(problem.shape);
  AttentionTensors<Buffer> tensors(problem, *attention);
  tensors.Run();
  return {Read(tensors.out()).Bits(), Read(tensors.lse()).Bits(), Read(tensors.gradients()).Bits()};
}

// bf16: weights and their gradients are rounded once more, before the second products.
template <class Buffer>
void ExpectLikeTheTwin(const AttentionProblem& problem) {
  const AttentionShape& shape = problem.shape;
  const auto attention = *cuda::MakeAttention(shape);
  AttentionTensors<Buffer> tensors(problem, *attention);
  tensors.Run();
  const bool narrow = shape.dtype == DType::kBFloat16;
  const twin::Attended want = twin::Attend(shape, problem.in, problem.starts);
  ExpectClose(Read(tensors.out()), want.out, Epsilon(shape.dtype), narrow ? 5e-3 : 1e-5, "out");
  ExpectClose(Read(tensors.lse()), want.lse, 1e-6, 1e-5, "lse");
  const auto group = static_cast<double>(shape.heads) / static_cast<double>(shape.kv_heads);
  ExpectCloseGradients(shape, Read(tensors.gradients()),
                       twin::AttendBackward(shape, problem.in, problem.dout, problem.starts),
                       Epsilon(shape.dtype), (narrow ? 0.03 : 3e-5) * std::sqrt(group));
}

AttentionShape Shape(DType dtype, int64_t seq, int64_t width, int64_t batch, int64_t heads) {
  return PlainShape(dtype, batch, seq, heads, width);
}

// Lengths around the tiles of 32, 64 and 128 rows; heads that fill a tile's width and that do not.
std::vector<AttentionShape> Shapes() {
  std::vector<AttentionShape> shapes;
  for (const int64_t seq : {1, 31, 64, 65, 127, 128, 129, 200, 300}) {
    shapes.push_back(Shape(DType::kBFloat16, seq, 64, 1, 1));
  }
  for (const int64_t width : {8, 40, 80, 96, 104, 128, 136, 256}) {
    shapes.push_back(Shape(DType::kBFloat16, 150, width, 1, 2));
  }
  shapes.push_back(Shape(DType::kBFloat16, 33, 64, 2, 3));
  for (const int64_t width : {1, 20, 63, 137, 255}) {  // by the plain kernels
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
  ExpectLikeTheTwin<AlignedTensor>(AttentionProblem(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionEmulationTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) { return NameOf(param_info.param); });

// Groups, windows, documents and soft caps, in bf16 by the tile kernels.
std::vector<AttentionShape> Options() {
  std::vector<AttentionShape> shapes;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    const AttentionShape shape = {
        .batch = 2, .seq = 130, .heads = 4, .kv_heads = 2, .width = 16, .dtype = dtype};
    shapes.push_back(shape);
    for (const int64_t window : {1, 3, 48, 200}) {
      AttentionShape some = shape;
      some.window = window;
      some.soft_cap = window == 48 ? 5 : 0;
      shapes.push_back(some);
    }
    AttentionShape capped = shape;
    capped.kv_heads = 1;
    capped.scale = 0.3f;
    capped.soft_cap = 20;
    shapes.push_back(capped);
  }
  // Windows that begin and end within a tile of any of the kernels, in every tile's width.
  for (const auto& [width, window] :
       {std::pair(64, 70), {64, 1}, {80, 33}, {128, 100}, {256, 100}}) {
    shapes.push_back({.batch = 2,
                      .seq = 270,
                      .heads = 2,
                      .kv_heads = 1,
                      .width = width,
                      .window = window,
                      .dtype = DType::kBFloat16});
  }
  // Caps with a window and without, in both widths of the tiles that have them.
  for (const auto& [width, window] : {std::pair(64, 0), {128, 100}, {136, 33}, {256, 0}}) {
    shapes.push_back({.batch = 1,
                      .seq = 200,
                      .heads = 2,
                      .kv_heads = 1,
                      .width = width,
                      .window = window,
                      .scale = 0.3f,
                      .soft_cap = 2,
                      .dtype = DType::kBFloat16});
  }
  shapes.push_back({.batch = 1,
                    .seq = 150,
                    .heads = 6,
                    .kv_heads = 2,
                    .width = 128,
                    .scale = 0.05f,
                    .dtype = DType::kBFloat16});
  return shapes;
}

class CudaAttentionOptionsTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(CudaAttentionOptionsTest, MatchTheTwinInAnyLayout) {
  const AttentionShape& shape = GetParam();
  ExpectLikeTheTwin<AlignedTensor>(AttentionProblem(Fused(shape)));
  ExpectLikeTheTwin<AlignedTensor>(AttentionProblem(Separate(shape, 8), RandomStarts(shape, 1)));
}

// Documents of one token, of a tile, and of the whole sequence.
TEST(CudaAttentionTest, DocumentsOfAnyLength) {
  constexpr int64_t kSeq = 200;
  for (const int64_t width : {64, 96, 128, 256}) {
    const AttentionShape shape = Fused({.batch = 1,
                                        .seq = kSeq,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .width = width,
                                        .dtype = DType::kBFloat16});
    for (const int64_t length : {int64_t{1}, int64_t{32}, int64_t{64}, int64_t{65}, kSeq}) {
      twin::Starts starts;
      for (int64_t t = 0; t < kSeq; ++t)
        starts.push_back(static_cast<int32_t>(t / length * length));
      ExpectLikeTheTwin<AlignedTensor>(AttentionProblem(shape, starts));
    }
  }
}

// Not by a bit: a document has the results that it has behind any other one of that length.
TEST(CudaAttentionTest, OtherDocumentsDoNotMatter) {
  constexpr int64_t kSeq = 200, kWidth = 64;
  constexpr int64_t kChanged = 75;  // tokens of the first document
  twin::Starts starts(kSeq, kChanged);
  std::fill_n(starts.begin(), kChanged, 0);
  AttentionProblem problem(Shape(DType::kBFloat16, kSeq, kWidth, 1, 1), starts);
  const AttentionBits before = RunWith<AlignedTensor>(problem);
  for (Values* const part : {&problem.in.q, &problem.in.k, &problem.in.v}) {
    std::fill_n(part->begin(), kChanged * kWidth, 9);
  }
  const AttentionBits after = RunWith<AlignedTensor>(problem);
  constexpr std::ptrdiff_t kBytes = kChanged * kWidth * 2;
  EXPECT_TRUE(
      std::equal(before.out.begin() + kBytes, before.out.end(), after.out.begin() + kBytes));
  EXPECT_FALSE(before.out == after.out);
  // Rows of dq, dk and dv side by side.
  EXPECT_TRUE(std::equal(before.gradients.begin() + 3 * kBytes, before.gradients.end(),
                         after.gradients.begin() + 3 * kBytes));
}

INSTANTIATE_TEST_SUITE_P(Options, CudaAttentionOptionsTest, testing::ValuesIn(Options()),
                         [](const auto& param_info) { return NameOf(param_info.param); });

TEST(CudaAttentionTest, TakesMisalignedTensors) {
  AttentionShape shape = Shape(DType::kBFloat16, 70, 64, 1, 2);
  ExpectLikeTheTwin<Tensor>(AttentionProblem(shape));
  shape.window = 20;
  ExpectLikeTheTwin<Tensor>(AttentionProblem(shape, RandomStarts(shape, 3)));
}

// Another order of blocks, warps and lanes, and copies that land at other times, find every missing
// barrier that a difference can show.
TEST(CudaAttentionTest, AnyOrderGivesTheSameBits) {
  for (const auto& [dtype, width] :
       {std::pair(DType::kBFloat16, int64_t{64}), std::pair(DType::kBFloat16, int64_t{128}),
        std::pair(DType::kBFloat16, int64_t{256}), std::pair(DType::kFloat32, int64_t{24})}) {
    const AttentionShape shape =
        Fused({.batch = 1, .seq = 270, .heads = 2, .kv_heads = 1, .width = width, .dtype = dtype});
    for (const twin::Starts& starts : {twin::Starts(), RandomStarts(shape, 2)}) {
      const AttentionProblem problem(shape, starts);
      emulation::launch_seed = 0;
      const AttentionBits first = RunWith<AlignedTensor>(problem);
      for (int seed = 1; seed <= Trials(4, 1); ++seed) {
        emulation::launch_seed = static_cast<uint64_t>(seed);
        EXPECT_TRUE(RunWith<AlignedTensor>(problem) == first) << "width " << width;
      }
    }
  }
  emulation::launch_seed = 0;
}

// Position t must not change, by a single bit, when a later position does.
TEST(CudaAttentionTest, TheFutureDoesNotMatter) {
  constexpr int64_t kSeq = 200;
  constexpr int64_t kChanged = 141;
  constexpr int64_t kWidth = 64;
  AttentionProblem problem(Shape(DType::kBFloat16, kSeq, kWidth, 1, 1));
  const AttentionBits before = RunWith<AlignedTensor>(problem);
  for (Values* const part : {&problem.in.q, &problem.in.k, &problem.in.v}) {
    std::fill(part->begin() + kChanged * kWidth, part->end(), 9);
  }
  const AttentionBits after = RunWith<AlignedTensor>(problem);
  constexpr std::ptrdiff_t kBytes = kChanged * kWidth * 2;
  EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + kBytes, after.out.begin()));
  EXPECT_FALSE(before.out == after.out);
}

// A diverged run must show, not be hidden by a maximum that drops NaNs.
TEST(CudaAttentionTest, NaNReachesTheOutput) {
  constexpr size_t kWidth = 64;
  AttentionProblem problem(Shape(DType::kBFloat16, 100, kWidth, 1, 1));
  problem.in.k[70 * kWidth] = std::nan("");
  const AttentionBits result = RunWith<AlignedTensor>(problem);
  for (size_t t = 0; t < 100; ++t) {
    uint16_t bits;
    std::memcpy(&bits, result.out.data() + t * kWidth * 2, sizeof(bits));
    EXPECT_EQ((bits & 0x7FFF) > 0x7F80, t >= 70) << "position " << t;
  }
}

// Scores of several hundred overflow e^x unless the largest is taken off first.
TEST(CudaAttentionTest, LargeScoresStayFinite) {
  AttentionProblem problem(Shape(DType::kFloat32, 40, 16, 1, 1));
  for (Values* const part : {&problem.in.q, &problem.in.k, &problem.in.v}) {
    for (double& value : *part) value = Rounded(value * 20, DType::kFloat32);
  }
  const auto attention = *cuda::MakeAttention(problem.shape);
  AttentionTensors<AlignedTensor> tensors(problem, *attention);
  tensors.Forward({});
  const twin::Attended want = twin::Attend(problem.shape, problem.in);
  ExpectClose(Read(tensors.out()), want.out, 1e-3, 1e-2, "out");
  ExpectClose(Read(tensors.lse()), want.lse, 1e-5, 1e-5, "lse");
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
