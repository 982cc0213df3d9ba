#include "tests/models/kernels/attention_problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

// Calls visit(part, index in the part's values, place in the buffer) for every value.
template <class Visit>
void ForEachValue(const AttentionShape& shape, Visit visit) {
  const Places places = PlacesOf(shape);
  const auto part = [&](int which, size_t place, int64_t heads, int64_t stride) {
    const int64_t columns = heads * shape.width;
    for (int64_t i = 0; i < shape.batch * shape.seq * columns; ++i) {
      visit(which, static_cast<size_t>(i),
            place + static_cast<size_t>(i / columns * stride + i % columns));
    }
  };
  part(0, places.q, shape.heads, shape.q_stride);
  part(1, places.k, shape.kv_heads, shape.kv_stride);
  part(2, places.v, shape.kv_heads, shape.kv_stride);
}

// The part's values; `parts` may be const.
template <class Parts>
auto& PartOf(Parts& parts, int which) {
  return which == 0 ? parts.q : which == 1 ? parts.k : parts.v;
}

}  // namespace

AttentionShape Fused(AttentionShape shape) {
  shape.q_stride = shape.kv_stride = (shape.heads + 2 * shape.kv_heads) * shape.width;
  return shape;
}

AttentionShape Separate(AttentionShape shape, int64_t gap) {
  shape.q_stride = shape.heads * shape.width + gap;
  shape.kv_stride = shape.kv_heads * shape.width + gap;
  return shape;
}

AttentionShape PlainShape(DType dtype, int64_t batch, int64_t seq, int64_t heads, int64_t width) {
  return Fused({.batch = batch,
                .seq = seq,
                .heads = heads,
                .kv_heads = heads,
                .width = width,
                .dtype = dtype});
}

std::string NameOf(const AttentionShape& s) {
  std::string name = absl::StrFormat("%s_batch%d_seq%d_heads%d_of%d", DTypeName(s.dtype), s.batch,
                                     s.seq, s.heads, s.width);
  if (s.kv_heads != s.heads) absl::StrAppend(&name, "_kv", s.kv_heads);
  if (s.window != 0) absl::StrAppend(&name, "_window", s.window);
  if (s.soft_cap != 0) absl::StrAppend(&name, "_cap", static_cast<int>(s.soft_cap));
  return name;
}

twin::Starts RandomStarts(const AttentionShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> length(1, shape.seq / 3 + 1);
  twin::Starts starts;
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t start = 0; start < shape.seq;) {
      const int64_t end = std::min(shape.seq, start + length(random));
      starts.insert(starts.end(), static_cast<size_t>(end - start), static_cast<int32_t>(start));
      start = end;
    }
  }
  return starts;
}

Places PlacesOf(const AttentionShape& s) {
  const auto rows = static_cast<size_t>(s.batch * s.seq);
  const auto q_columns = static_cast<size_t>(s.heads * s.width);
  const auto kv_columns = static_cast<size_t>(s.kv_heads * s.width);
  const auto q_stride = static_cast<size_t>(s.q_stride);
  const auto kv_stride = static_cast<size_t>(s.kv_stride);
  if (q_stride == kv_stride && q_stride == q_columns + 2 * kv_columns) {
    return {0, q_columns, q_columns + kv_columns, rows * q_stride};
  }
  return {0, rows * q_stride, rows * (q_stride + kv_stride), rows * (q_stride + 2 * kv_stride)};
}

Values InOneBuffer(const AttentionShape& shape, const twin::QueriesKeysValues& parts) {
  Values buffer(PlacesOf(shape).size, std::numeric_limits<double>::quiet_NaN());
  ForEachValue(shape,
               [&](int which, size_t i, size_t at) { buffer[at] = PartOf(parts, which)[i]; });
  return buffer;
}

twin::QueriesKeysValues PartsOf(const AttentionShape& shape, const Values& buffer) {
  const auto rows = static_cast<size_t>(shape.batch * shape.seq);
  const size_t q = rows * static_cast<size_t>(shape.heads * shape.width);
  const size_t kv = rows * static_cast<size_t>(shape.kv_heads * shape.width);
  twin::QueriesKeysValues parts = {Values(q), Values(kv), Values(kv)};
  std::vector<bool> gap(buffer.size(), true);
  ForEachValue(shape, [&](int which, size_t i, size_t at) {
    PartOf(parts, which)[i] = buffer[at];
    gap[at] = false;
  });
  for (size_t i = 0; i < buffer.size(); ++i) {
    EXPECT_TRUE(!gap[i] || std::isnan(buffer[i])) << "written between rows, element " << i;
  }
  return parts;
}

AttentionProblem::AttentionProblem(const AttentionShape& problem_shape, twin::Starts its_starts)
    : shape(problem_shape), starts(std::move(its_starts)) {
  const int64_t rows = shape.batch * shape.seq;
  const auto part = [&](int64_t heads, uint64_t seed) {
    return Rounded(RandomMatrix(rows, heads * shape.width, seed, -2, 2), shape.dtype);
  };
  in = {part(shape.heads, 1), part(shape.kv_heads, 2), part(shape.kv_heads, 3)};
  dout = Rounded(RandomMatrix(rows, shape.heads * shape.width, 4), shape.dtype);
}

AttentionBits RunForBits(const Kernels& kernels, const AttentionProblem& problem) {
  const auto attention = *kernels.make_attention(problem.shape);
  AttentionTensors<Tensor> tensors(problem, *attention);
  tensors.Run();
  return {tensors.out().Bits(), tensors.lse().Bits(), tensors.gradients().Bits()};
}

void ExpectCloseGradients(const AttentionShape& shape, const Tensor& got,
                          const twin::QueriesKeysValues& want, double relative, double absolute) {
  const twin::QueriesKeysValues parts = PartsOf(shape, got.ToValues());
  constexpr const char* kNames[] = {"dq", "dk", "dv"};
  for (int which = 0; which < 3; ++which) {
    ExpectClose(Tensor(shape.dtype, PartOf(parts, which)), PartOf(want, which), relative, absolute,
                kNames[which]);
  }
}

}  // namespace sluice
