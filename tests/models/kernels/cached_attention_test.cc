#include "models/kernels/cached_attention.h"

#include <gtest/gtest.h>

#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

// Rows of `problem` in pieces of the given sizes, one after another, into one cache.
void AttendInPieces(const AttentionProblem& problem, const std::vector<int64_t>& pieces,
                    int64_t positions, Tensor& out) {
  const AttentionShape& shape = problem.shape;
  const Places places = PlacesOf(shape);
  Tensor in(shape.dtype, InOneBuffer(shape, problem.in));
  Tensor cache(shape.dtype, static_cast<size_t>(CacheElements(shape, positions)));
  const auto at = [&](Tensor& tensor, int64_t element) {
    return static_cast<char*>(tensor.data()) + element * SizeOf(shape.dtype);
  };
  int64_t first = 0;
  for (const int64_t rows : pieces) {
    AttentionShape piece = shape;
    piece.seq = rows;
    Workspace workspace(CachedAttentionWorkspace(piece, positions));
    const auto place = [&](size_t begin, int64_t stride) {
      return at(in, static_cast<int64_t>(begin) + first * stride);
    };
    AttendCached(piece, positions, first,
                 {.q = place(places.q, shape.q_stride),
                  .k = place(places.k, shape.kv_stride),
                  .v = place(places.v, shape.kv_stride)},
                 cache.data(), at(out, first * shape.heads * shape.width), workspace.data());
    first += rows;
  }
}

class CachedAttentionTest : public testing::TestWithParam<AttentionShape> {};

TEST_P(CachedAttentionTest, MatchesTheTwinInAnyPieces) {
  const AttentionProblem problem(GetParam());
  const int64_t seq = problem.shape.seq;
  const twin::Attended want = twin::Attend(problem.shape, problem.in);
  Tensor whole(problem.shape.dtype, problem.dout.size());
  AttendInPieces(problem, {seq}, seq, whole);
  ExpectClose(whole, want.out, Epsilon(problem.shape.dtype), 1e-5, "out");
  const std::vector<int64_t> ones(static_cast<size_t>(seq), 1);
  for (const std::vector<int64_t>& pieces : {ones, {seq / 2, seq - seq / 2}}) {
    Tensor out(problem.shape.dtype, problem.dout.size());
    AttendInPieces(problem, pieces, seq + 7, out);
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

INSTANTIATE_TEST_SUITE_P(Shapes, CachedAttentionTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) { return NameOf(param_info.param); });

}  // namespace
}  // namespace sluice
