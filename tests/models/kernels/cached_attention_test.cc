#include "models/kernels/cached_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

// Puts keys and values of the rows before `end` where a cache has them.
void FillCache(const AttentionProblem& problem, int64_t end, int64_t positions, Tensor& cache) {
  const AttentionShape& s = problem.shape;
  for (int64_t i = 0; i < end * s.kv_heads * s.width; ++i) {
    const int64_t column = i % s.width, head = i / s.width % s.kv_heads;
    const int64_t row = i / s.width / s.kv_heads;
    const auto to = static_cast<size_t>((head * positions + row) * s.width + column);
    cache.Set(to, problem.in.k[static_cast<size_t>(i)]);
    cache.Set(to + static_cast<size_t>(s.kv_heads * positions * s.width),
              problem.in.v[static_cast<size_t>(i)]);
  }
}

// Rows of `problem` from `first` on in pieces of the given sizes, one after another, into one
// cache, which has those before.
void AttendInPieces(const AttentionProblem& problem, int64_t first,
                    const std::vector<int64_t>& pieces, int64_t positions, Tensor& out) {
  const AttentionShape& shape = problem.shape;
  const Kernels& kernels = KernelsUnderTest();
  const Places places = PlacesOf(shape);
  Tensor in(shape.dtype, InOneBuffer(shape, problem.in));
  Tensor cache(shape.dtype, static_cast<size_t>(CacheElements(shape, positions)));
  const auto at = [&](Tensor& tensor, int64_t element) {
    return static_cast<char*>(tensor.data()) + element * SizeOf(shape.dtype);
  };
  FillCache(problem, first, positions, cache);
  for (const int64_t rows : pieces) {
    AttentionShape piece = shape;
    piece.seq = rows;
    Workspace workspace(kernels.attend_cached_workspace(piece, positions));
    const auto place = [&](size_t begin, int64_t stride) {
      return at(in, static_cast<int64_t>(begin) + first * stride);
    };
    kernels.attend_cached({}, piece, positions, first,
                          {.q = place(places.q, shape.q_stride),
                           .k = place(places.k, shape.kv_stride),
                           .v = place(places.v, shape.kv_stride)},
                          cache.data(), at(out, first * shape.heads * shape.width),
                          workspace.data());
    first += rows;
  }
}

class CachedAttentionTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(CachedAttentionTest, MatchesTheTwinInAnyPieces) {
  const AttentionProblem problem(GetParam());
  const int64_t seq = problem.shape.seq;
  const twin::Attended want = twin::Attend(problem.shape, problem.in);
  Tensor whole(problem.shape.dtype, problem.dout.size());
  AttendInPieces(problem, 0, {seq}, seq, whole);
  ExpectClose(whole, want.out, Epsilon(problem.shape.dtype), 1e-5, "out");
  const std::vector<int64_t> ones(static_cast<size_t>(seq), 1);
  for (const std::vector<int64_t>& pieces : {ones, {seq / 2, seq - seq / 2}}) {
    Tensor out(problem.shape.dtype, problem.dout.size());
    AttendInPieces(problem, 0, pieces, seq + 7, out);
    EXPECT_EQ(whole.Bits(), out.Bits()) << "the bits depend on the pieces";
  }
}

std::vector<AttentionShape> Shapes() {
  std::vector<AttentionShape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t width : {1, 5, 16, 33, 64, 128}) {
      for (const int64_t kv_heads : {1, 2, 4}) {
        for (const int64_t window : {0, 1, 9}) {
          AttentionShape shape{.batch = 1,
                               .seq = 23,
                               .heads = 4,
                               .kv_heads = kv_heads,
                               .width = width,
                               .window = window,
                               .scale = width == 33 ? 0.2f : 0.0f,
                               .soft_cap = width == 16 || width == 5 ? 5.0f : 0.0f,
                               .dtype = dtype};
          shapes.push_back(kv_heads == 4 ? Fused(shape) : Separate(shape, /*gap=*/3));
        }
      }
    }
  }
  return shapes;
}

// Few rows that see many keys, which a GPU divides into parts: as many as there are tiles of keys,
// and then the most, of two tiles and a part of one.
TEST(CachedAttention, OfFewRowsToManyKeys) {
  constexpr int64_t kRows = 3;
  for (const int64_t seq : {128, 131, 300, 2100}) {
    for (const int64_t window : {0, 129, 2051}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const AttentionProblem problem(Separate({.batch = 1,
                                                 .seq = seq,
                                                 .heads = 2,
                                                 .kv_heads = 1,
                                                 .width = 16,
                                                 .window = window,
                                                 .soft_cap = window == 0 ? 5.0f : 0.0f,
                                                 .dtype = dtype}));
        SCOPED_TRACE(NameOf(problem.shape));
        const size_t row = size_t{2} * 16;
        const twin::Attended want = twin::Attend(problem.shape, problem.in);
        const auto attend = [&](const std::vector<int64_t>& pieces, int64_t positions) {
          Tensor out(dtype, problem.dout.size());
          AttendInPieces(problem, seq - kRows, pieces, positions, out);
          const Values all = out.ToValues();
          return Values(all.end() - static_cast<std::ptrdiff_t>(kRows * row), all.end());
        };
        const Values together = attend({kRows}, seq);
        for (size_t i = 0; i < together.size(); ++i) {
          const double expected = want.out[want.out.size() - together.size() + i];
          ASSERT_NEAR(together[i], expected, Epsilon(dtype) * std::abs(expected) + 1e-5) << i;
        }
        EXPECT_EQ(attend({1, 2}, seq + 700), together) << "the bits depend on the pieces";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CachedAttentionTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) { return NameOf(param_info.param); });

}  // namespace
}  // namespace sluice
