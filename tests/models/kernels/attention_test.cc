#include "models/kernels/cpu/attention.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "hwy/targets.h"
#include "models/kernels/cpu/matmul.h"
#include "models/spec/bfloat16.h"
#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// Both passes against the twin in fp64.
void ExpectLikeTheTwin(const AttentionProblem& problem) {
  const AttentionShape& shape = problem.shape;
  const auto attention = *CpuKernels().make_attention(shape);
  AttentionTensors<Tensor> tensors(problem, *attention);
  tensors.Run();
  const twin::Attended want = twin::Attend(shape, problem.in, problem.starts);
  // In bf16 a product takes the weights, which add up to 1, in bf16: half a unit in the last place
  // of each, of values up to 2.
  const double narrow = shape.dtype == DType::kBFloat16 ? 2.0 / 256 : 1e-5;
  ExpectClose(tensors.out(), want.out, Epsilon(shape.dtype), narrow, "out");
  ExpectClose(tensors.lse(), want.lse, 1e-6, 1e-5, "lse");
  // The stored output is rounded too, and enters every gradient through rowsum(dout * out).
  const double absolute = shape.dtype == DType::kBFloat16 ? 0.02 : 2e-5;
  const int64_t queries = shape.heads / shape.kv_heads;
  const auto group = static_cast<double>(queries);
  ExpectCloseGradients(shape, tensors.gradients(),
                       twin::AttendBackward(shape, problem.in, problem.dout, problem.starts),
                       Epsilon(shape.dtype), absolute * std::sqrt(group));
}

// Lengths around the tile (12), panel (32), block (48) and padding (96) of
// models/kernels/cpu/attention.h.
std::vector<AttentionShape> Shapes() {
  std::vector<AttentionShape> shapes;
  for (const DType dtype : kTypes) {
    for (const int64_t seq : {1, 2, 11, 12, 13, 31, 33, 47, 49, 64, 96, 97, 150}) {
      shapes.push_back(PlainShape(dtype, 2, seq, 3, 16));
    }
    for (const int64_t width : {1, 4, 5, 17, 31, 32, 33, 64, 80, 128, 256}) {
      shapes.push_back(PlainShape(dtype, 1, 37, 2, width));
    }
  }
  return shapes;
}

class AttentionTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(AttentionTest, MatchesTheTwin) { ExpectLikeTheTwin(AttentionProblem(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) { return NameOf(param_info.param); });

// Every two options with each other: groups, widths, lengths, windows, caps.
std::vector<AttentionShape> Options() {
  struct Heads {
    int64_t q, kv;
  };
  constexpr float kCaps[] = {0, 5, 50};
  constexpr float kScales[] = {0, 0.2f};
  std::vector<AttentionShape> shapes;
  size_t combination = 0;
  for (const Heads heads : {Heads{1, 1}, Heads{4, 2}, Heads{6, 1}, Heads{8, 8}}) {
    for (const int64_t width : {5, 8, 33, 64}) {
      for (const int64_t seq : {1, 7, 49, 97, 130}) {
        for (const int64_t window : {0, 1, 3, 48, 200}) {
          // A third of all, in which any two of them still meet.
          if (++combination % 3 != 0) continue;
          const size_t i = shapes.size();
          shapes.push_back({.batch = 1 + static_cast<int64_t>(i % 2),
                            .seq = seq,
                            .heads = heads.q,
                            .kv_heads = heads.kv,
                            .width = width,
                            .window = window,
                            .scale = kScales[i % 2],
                            .soft_cap = kCaps[i % 3],
                            .dtype = kTypes[i / 3 % 2]});
        }
      }
    }
  }
  for (const DType dtype : kTypes) {
    for (const int64_t width : {80, 128, 256}) {
      shapes.push_back({.batch = 1,
                        .seq = 130,
                        .heads = 4,
                        .kv_heads = 2,
                        .width = width,
                        .window = 50,
                        .soft_cap = 20,
                        .dtype = dtype});
    }
  }
  return shapes;
}

class AttentionOptionsTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(AttentionOptionsTest, MatchTheTwinInAnyLayout) {
  const AttentionShape& shape = GetParam();
  ExpectLikeTheTwin(AttentionProblem(Fused(shape)));
  ExpectLikeTheTwin(AttentionProblem(Separate(shape, 3), RandomStarts(shape, 1)));
}

INSTANTIATE_TEST_SUITE_P(Options, AttentionOptionsTest, testing::ValuesIn(Options()),
                         [](const auto& param_info) { return NameOf(param_info.param); });

// Scores of several hundred overflow e^x unless the largest is taken off first.
TEST(AttentionRangeTest, LargeScoresStayFinite) {
  AttentionProblem problem(PlainShape(DType::kFloat32, 1, 40, 1, 16));
  for (Values* const part : {&problem.in.q, &problem.in.k, &problem.in.v}) {
    for (double& value : *part) value = Rounded(value * 20, DType::kFloat32);
  }
  const auto attention = *CpuKernels().make_attention(problem.shape);
  AttentionTensors<Tensor> tensors(problem, *attention);
  tensors.Forward({});
  const twin::Attended want = twin::Attend(problem.shape, problem.in);
  ExpectClose(tensors.out(), want.out, 1e-3, 1e-2, "out");
  ExpectClose(tensors.lse(), want.lse, 1e-5, 1e-5, "lse");
}

// Position t must not change when a later position does.
TEST(AttentionCausalityTest, TheFutureDoesNotMatter) {
  AttentionProblem problem(PlainShape(DType::kFloat32, 1, 70, 2, 4));
  constexpr size_t kChanged = size_t{41} * 8;
  const AttentionBits before = RunForBits(CpuKernels(), problem);
  for (Values* const part : {&problem.in.q, &problem.in.k, &problem.in.v}) {
    std::fill(part->begin() + kChanged, part->end(), 9);
  }
  const AttentionBits after = RunForBits(CpuKernels(), problem);
  constexpr std::ptrdiff_t kBytes = kChanged * sizeof(float);
  EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + kBytes, after.out.begin()));
  EXPECT_NE(before.out, after.out);
}

// A diverged run must show, not be hidden by a softmax that drops NaNs.
TEST(AttentionRangeTest, NaNReachesTheOutput) {
  for (const float cap : {0.0f, 10.0f}) {
    AttentionShape shape = PlainShape(DType::kFloat32, 1, 20, 1, 8);
    shape.soft_cap = cap;
    AttentionProblem problem(shape);
    problem.in.k[24] = std::nan("");  // of position 3
    const auto attention = *CpuKernels().make_attention(shape);
    AttentionTensors<Tensor> tensors(problem, *attention);
    tensors.Forward({});
    EXPECT_FALSE(std::isnan(tensors.out().Get(size_t{2} * 8)));
    for (size_t t = 3; t < 20; ++t) {
      EXPECT_TRUE(std::isnan(tensors.out().Get(t * 8))) << "position " << t << ", cap " << cap;
    }
  }
}

AttentionShape GroupedShape(DType dtype) {
  return Separate({.batch = 2, .seq = 130, .heads = 4, .kv_heads = 2, .width = 33, .dtype = dtype});
}

TEST(AttentionBitsTest, OneDocumentIsNone) {
  for (const DType dtype : kTypes) {
    const AttentionShape shape = GroupedShape(dtype);
    EXPECT_TRUE(RunForBits(CpuKernels(), AttentionProblem(shape, twin::Starts(260, 0))) ==
                RunForBits(CpuKernels(), AttentionProblem(shape)));
  }
}

TEST(AttentionBitsTest, AWindowOfTheWholeSequenceIsNone) {
  for (const DType dtype : kTypes) {
    AttentionShape shape = GroupedShape(dtype);
    const AttentionBits all = RunForBits(CpuKernels(), AttentionProblem(shape));
    shape.window = shape.seq;
    EXPECT_TRUE(RunForBits(CpuKernels(), AttentionProblem(shape)) == all);
    shape.window = shape.seq - 1;  // the last row sees one key less
    EXPECT_FALSE(RunForBits(CpuKernels(), AttentionProblem(shape)) == all);
  }
}

// The bytes of rows first ... end - 1 of a buffer with rows of `row` values.
std::vector<char> Rows(const std::vector<char>& bits, DType dtype, int64_t row, int64_t first,
                       int64_t end) {
  const int64_t bytes = row * SizeOf(dtype);
  return {bits.begin() + first * bytes, bits.begin() + end * bytes};
}

Values Rows(const Values& values, int64_t row, int64_t first, int64_t end) {
  return {values.begin() + first * row, values.begin() + end * row};
}

// Rows first ... end - 1 of one sequence as a sequence of their own.
AttentionProblem Part(const AttentionProblem& whole, int64_t first, int64_t end) {
  AttentionShape shape = whole.shape;
  shape.seq = end - first;
  AttentionProblem part(shape);
  const int64_t q = shape.heads * shape.width, kv = shape.kv_heads * shape.width;
  part.in = {Rows(whole.in.q, q, first, end), Rows(whole.in.k, kv, first, end),
             Rows(whole.in.v, kv, first, end)};
  part.dout = Rows(whole.dout, q, first, end);
  return part;
}

// Bit for bit: a key outside a row's document adds exactly nothing to any of its sums.
TEST(AttentionBitsTest, ADocumentIsASequenceOfItsOwn) {
  constexpr int64_t kEnds[] = {1, 14, 50, 61, 170, 200};
  for (const DType dtype : kTypes) {
    for (const int64_t window : {0, 20}) {
      AttentionShape shape = Fused({.batch = 1,
                                    .seq = 200,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = 17,
                                    .window = window,
                                    .soft_cap = 30,
                                    .dtype = dtype});
      AttentionProblem packed(shape);
      for (const int64_t end : kEnds) {
        packed.starts.resize(static_cast<size_t>(end), static_cast<int32_t>(packed.starts.size()));
      }
      const AttentionBits all = RunForBits(CpuKernels(), packed);
      int64_t first = 0;
      for (const int64_t end : kEnds) {
        const AttentionBits alone = RunForBits(CpuKernels(), Part(packed, first, end));
        const int64_t row = shape.heads * shape.width;
        EXPECT_EQ(Rows(all.out, dtype, row, first, end), alone.out) << "from " << first;
        EXPECT_EQ(Rows(all.gradients, dtype, shape.q_stride, first, end), alone.gradients)
            << "from " << first;
        first = end;
      }
    }
  }
}

// What both passes of a group with one sequence and bf16 values write.
struct GroupBits {
  std::vector<uint16_t> out, dq, dk, dv;
  std::vector<float> lse;
  bool operator==(const GroupBits&) const = default;
};

GroupBits RunGroup(cpu::GroupShape shape, cpu::BFloat16Products products,
                   const twin::Starts& starts) {
  shape.products = products;
  const auto random = [&](size_t rows, size_t stride, uint64_t seed) {
    std::vector<uint16_t> bits;
    for (const double value : RandomValues(rows * stride, seed)) {
      bits.push_back(ToBFloat16(static_cast<float>(value)));
    }
    return bits;
  };
  const auto q = random(shape.seq, shape.q_stride, 1), k = random(shape.seq, shape.kv_stride, 2);
  const auto v = random(shape.seq, shape.kv_stride, 3),
             dout = random(shape.seq, shape.out_stride, 4);
  GroupBits bits{.out = std::vector<uint16_t>(dout.size()),
                 .dq = std::vector<uint16_t>(q.size()),
                 .dk = std::vector<uint16_t>(k.size()),
                 .dv = std::vector<uint16_t>(k.size()),
                 .lse = std::vector<float>(shape.heads * shape.seq)};
  Workspace forward(shape.forward_floats() * sizeof(float));
  Workspace backward(shape.backward_floats() * sizeof(float));
  const int32_t* const from = starts.empty() ? nullptr : starts.data();
  cpu::AttendGroup(shape,
                   {.q = q.data(),
                    .k = k.data(),
                    .v = v.data(),
                    .starts = from,
                    .out = bits.out.data(),
                    .lse = bits.lse.data()},
                   static_cast<float*>(forward.data()));
  cpu::AttendGroupBackward(shape,
                           {.q = q.data(),
                            .k = k.data(),
                            .v = v.data(),
                            .starts = from,
                            .out = bits.out.data(),
                            .lse = bits.lse.data(),
                            .dout = dout.data(),
                            .dq = bits.dq.data(),
                            .dk = bits.dk.data(),
                            .dv = bits.dv.data()},
                           static_cast<float*>(backward.data()));
  return bits;
}

// A group of two heads, of odd strides.
cpu::GroupShape TwoHeads(size_t seq, size_t width, size_t window) {
  return {.seq = seq,
          .heads = 2,
          .width = width,
          .q_stride = 2 * width + 1,
          .kv_stride = width,
          .out_stride = 2 * width,
          .window = window < seq ? window : 0,
          .scale = 0.3f,
          .dtype = DType::kBFloat16};
}

// The processor's products of pairs round after each of the two, in the order of the sum.
TEST(AttentionBitsTest, PairsGiveTheBitsOfSingleProducts) {
  if (!cpu::HasPairs() || (hwy::SupportedTargets() & HWY_AVX3) == 0)
    GTEST_SKIP() << "no products of bf16 pairs here";
  for (const size_t seq : {1, 2, 13, 50, 97, 131}) {
    for (const size_t width : {1, 5, 16, 33, 128}) {
      for (const size_t window : {0, 20}) {
        for (const bool documents : {false, true}) {
          cpu::GroupShape shape = TwoHeads(seq, width, window);
          if (seq % 2 != 0) shape.soft_cap = 20;
          twin::Starts starts;
          for (size_t row = 0; documents && row < seq; ++row) {
            starts.push_back(row % 13 == 0 ? static_cast<int32_t>(row) : starts.back());
          }
          using enum cpu::BFloat16Products;
          EXPECT_TRUE(RunGroup(shape, kPairs, starts) == RunGroup(shape, kSingle, starts))
              << seq << " rows of " << width << ", window " << window
              << (documents ? ", documents" : "");
        }
      }
    }
  }
}

// AMX tiles add up the products of a row and a key in another order, and nothing else.
TEST(AttentionBitsTest, TilesGiveTheValuesOfSingleProducts) {
  if (!cpu::HasTiles() || (hwy::SupportedTargets() & HWY_AVX3) == 0) GTEST_SKIP() << "no AMX here";
  using enum cpu::BFloat16Products;
  for (const size_t seq : {1, 13, 50, 131}) {
    for (const size_t width : {1, 5, 16, 33, 40, 64, 128}) {
      const cpu::GroupShape shape = TwoHeads(seq, width, /*window=*/seq == 50 ? 20 : 0);
      SCOPED_TRACE(testing::Message() << seq << " rows of " << width);
      const GroupBits tiles = RunGroup(shape, kTiles, {}), single = RunGroup(shape, kSingle, {});
      for (size_t i = 0; i < tiles.lse.size(); ++i)
        EXPECT_NEAR(tiles.lse[i], single.lse[i], 1e-5 * (1 + std::abs(single.lse[i])));
      const auto expect_near = [](const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) {
          const double x = FromBFloat16(a[i]), y = FromBFloat16(b[i]);
          EXPECT_NEAR(x, y, 0.01 * std::abs(y) + 0.01) << i;
        }
      };
      expect_near(tiles.out, single.out);
      expect_near(tiles.dq, single.dq);
      expect_near(tiles.dk, single.dk);
      expect_near(tiles.dv, single.dv);
    }
  }
}

// With one query head for each key/value head, groups change nothing.
TEST(AttentionBitsTest, AHeadDoesNotDependOnTheOthers) {
  const AttentionProblem two(PlainShape(DType::kFloat32, 1, 60, 2, 8));
  AttentionProblem one(PlainShape(DType::kFloat32, 1, 60, 1, 8));
  for (size_t i = 0; i < one.in.q.size(); ++i) {
    const size_t at = i / 8 * 16 + i % 8;
    one.in.q[i] = two.in.q[at];
    one.in.k[i] = two.in.k[at];
    one.in.v[i] = two.in.v[at];
    one.dout[i] = two.dout[at];
  }
  const AttentionBits of_two = RunForBits(CpuKernels(), two);
  const AttentionBits of_one = RunForBits(CpuKernels(), one);
  for (int64_t t = 0; t < 60; ++t) {
    EXPECT_EQ(Rows(of_two.out, DType::kFloat32, 8, 2 * t, 2 * t + 1),
              Rows(of_one.out, DType::kFloat32, 8, t, t + 1));
    for (int64_t part = 0; part < 3; ++part) {
      EXPECT_EQ(Rows(of_two.gradients, DType::kFloat32, 8, 6 * t + 2 * part, 6 * t + 2 * part + 1),
                Rows(of_one.gradients, DType::kFloat32, 8, 3 * t + part, 3 * t + part + 1));
    }
  }
}

// A window takes the memory that it needs; nothing else of the options changes a work area.
TEST(AttentionWorkspaceTest, FollowsFromTheShapeAndTheNumberOfThreads) {
  omp_set_num_threads(1);
  const auto bytes = [](const AttentionShape& shape) {
    const auto attention = *CpuKernels().make_attention(shape);
    return std::pair(attention->forward_workspace(), attention->backward_workspace());
  };
  const AttentionShape plain = PlainShape(DType::kFloat32, 2, 4096, 4, 64);
  AttentionShape other = plain;
  other.kv_heads = 1;
  other.soft_cap = 50;
  other.scale = 0.1f;
  EXPECT_EQ(bytes(Separate(other)), bytes(plain));
  // 3 and 7 panels of 43 * 96 rows; 12 rows of scores and of sums, or twice 48 and 12.
  constexpr size_t kRows = 4128, kWidth = 64;
  EXPECT_EQ(bytes(plain), std::pair((3 * kRows * kWidth + 12 * (kRows + kWidth)) * 4,
                                    (7 * kRows * kWidth + 96 * kRows + 12 * kWidth) * 4));
  other.window = 256;  // scores for 5 * 96 keys
  EXPECT_EQ(bytes(other), std::pair((3 * kRows * kWidth + 12 * (480 + kWidth)) * 4,
                                    (7 * kRows * kWidth + size_t{96} * 480 + 12 * kWidth) * 4));
  // Each thread has its own, and there are 2 key/value heads in all for them.
  const auto [forward, backward] = bytes(other);
  omp_set_num_threads(2);
  EXPECT_EQ(bytes(other), std::pair(2 * forward, 2 * backward));
  omp_set_num_threads(3);
  EXPECT_EQ(bytes(other), std::pair(2 * forward, 2 * backward));
  omp_set_num_threads(1);
}

}  // namespace
}  // namespace sluice
