// The register tile and the panels of attention.h, for one Highway target at a time.
#if defined(SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>

#include "models/kernels/cpu/attention.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {

// Two vectors wide, and as many rows as leave the sums in registers: 32 of them with AVX-512,
// else 16.
constexpr size_t kTileRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
constexpr size_t kTileColumns = 2 * kLanes;
static_assert(kQueryTile % kTileRows == 0 && kPanel % kTileColumns == 0);

// A matrix by the distance between its rows and between its columns, so that a transpose is a swap.
struct Strided {
  const float* at;
  size_t row;
  size_t column;
};

// c[kTileRows, kTileColumns] (+)= a[kTileRows, depth] * b[depth, kTileColumns].
template <bool kAccumulate>
HWY_NOINLINE void Tile(size_t depth, Strided a, const float* HWY_RESTRICT b, size_t b_row,
                       float* HWY_RESTRICT c, size_t c_row) {
  const DF d;
  VF left[kTileRows];
  VF right[kTileRows];
  HWY_UNROLL(12)
  for (size_t r = 0; r < kTileRows; ++r) {
    left[r] = kAccumulate ? hn::LoadU(d, c + r * c_row) : hn::Zero(d);
    right[r] = kAccumulate ? hn::LoadU(d, c + r * c_row + kLanes) : hn::Zero(d);
  }
  for (size_t i = 0; i < depth; ++i) {
    const VF b0 = hn::LoadU(d, b + i * b_row);
    const VF b1 = hn::LoadU(d, b + i * b_row + kLanes);
    const float* HWY_RESTRICT column = a.at + i * a.column;
    HWY_UNROLL(12)
    for (size_t r = 0; r < kTileRows; ++r) {
      const VF value = hn::Set(d, column[r * a.row]);
      left[r] = hn::MulAdd(value, b0, left[r]);
      right[r] = hn::MulAdd(value, b1, right[r]);
    }
  }
  HWY_UNROLL(12)
  for (size_t r = 0; r < kTileRows; ++r) {
    hn::StoreU(left[r], d, c + r * c_row);
    hn::StoreU(right[r], d, c + r * c_row + kLanes);
  }
}

// c[kQueryTile, columns] (+)= a[kQueryTile, depth] * b[depth, columns]; columns are a multiple of
// kPanel.
template <bool kAccumulate>
HWY_INLINE void RowTimesRows(size_t depth, Strided a, const float* b, size_t b_row, size_t columns,
                             float* c, size_t c_row) {
  for (size_t column = 0; column < columns; column += kTileColumns) {
    for (size_t r = 0; r < kQueryTile; r += kTileRows) {
      Tile<kAccumulate>(depth, {a.at + r * a.row, a.row, a.column}, b + column, b_row,
                        c + r * c_row + column, c_row);
    }
  }
}

// c[kQueryTile, key - base] = a[kQueryTile, width] * (the panels of b, transposed) for the keys
// from `first`, rounded down, to `end`, rounded up to whole panels.
HWY_INLINE void RowTimesPanels(size_t width, const float* a, size_t a_row, const float* panels,
                               size_t first, size_t end, size_t base, float* c, size_t c_row) {
  for (size_t key = RoundDown(first, kPanel); key < end; key += kPanel) {
    RowTimesRows<false>(width, {a, a_row, 1}, panels + key * width, kPanel, kPanel, c + key - base,
                        c_row);
  }
}

// `n` scores become cap * tanh(score / cap).
HWY_INLINE void CapScores(size_t n, float cap, float* scores) {
  const DF d;
  const VF factor = hn::Set(d, cap);
  const VF inverse = hn::Set(d, 1.0f / cap);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF score = Load(d, scores + i, part);
    Store(hn::Mul(factor, TanhOf(hn::Mul(score, inverse))), d, scores + i, part);
  });
}

struct RowSoftmax {
  float lse;
  float sum;
};

// `n` scores become e^(score - largest).
HWY_INLINE RowSoftmax Exponentials(size_t n, float* scores) {
  const DF d;
  const VF least = hn::Set(d, -std::numeric_limits<float>::infinity());
  VF most = least;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    most = hn::Max(most, HeadOr(Load(d, scores + i, part), least, part));
  });
  const float largest = MaxAll(most);
  const VF offset = hn::Set(d, largest);
  VF sums = hn::Zero(d);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF value = ExpOf(hn::Sub(Load(d, scores + i, part), offset));
    sums = hn::Add(sums, OnlyHead(value, part));
    Store(value, d, scores + i, part);
  });
  const float sum = SumAll(sums);
  return {largest + std::log(sum), sum};
}

// Rows in fp32, times `scale`; padding in both directions is zero.
template <class T>
void PackRows(const GroupShape& shape, const T* from, size_t stride, float scale, float* to) {
  const DF d;
  const size_t columns = shape.padded_width();
  const VF factor = hn::Set(d, scale);
  for (size_t row = 0; row < shape.seq; ++row) {
    ForEachVector(shape.width, [&](size_t i, auto part) HWY_ATTR {
      Store(hn::Mul(Load(d, from + row * stride + i, part), factor), d, to + row * columns + i,
            part);
    });
    std::fill(to + row * columns + shape.width, to + (row + 1) * columns, 0.0f);
  }
  std::fill(to + shape.seq * columns, to + shape.padded_seq() * columns, 0.0f);
}

HWY_INLINE float Widen(float x) { return x; }
HWY_INLINE float Widen(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// to[column * kPanel + row] = from[row * stride + column] for 4 rows and columns.
#if HWY_TARGET == HWY_SCALAR
template <class T>
void TransposeFour(const T* from, size_t stride, float* to) {
  for (size_t i = 0; i < 16; ++i) to[i % 4 * kPanel + i / 4] = Widen(from[i / 4 * stride + i % 4]);
}
#else
template <class T>
HWY_INLINE void TransposeFour(const T* from, size_t stride, float* to) {
  const hn::FixedTag<float, 4> d;
  const auto row0 = Load(d, from, Full());
  const auto row1 = Load(d, from + stride, Full());
  const auto row2 = Load(d, from + 2 * stride, Full());
  const auto row3 = Load(d, from + 3 * stride, Full());
  const auto even01 = hn::InterleaveLower(d, row0, row2);
  const auto odd01 = hn::InterleaveLower(d, row1, row3);
  const auto even23 = hn::InterleaveUpper(d, row0, row2);
  const auto odd23 = hn::InterleaveUpper(d, row1, row3);
  hn::StoreU(hn::InterleaveLower(d, even01, odd01), d, to);
  hn::StoreU(hn::InterleaveUpper(d, even01, odd01), d, to + kPanel);
  hn::StoreU(hn::InterleaveLower(d, even23, odd23), d, to + 2 * kPanel);
  hn::StoreU(hn::InterleaveUpper(d, even23, odd23), d, to + 3 * kPanel);
}
#endif

// Panels of kPanel rows, each stored column by column: to[panel][column][row in panel]; rows past
// the end are zero.
template <class T>
void PackTransposed(const GroupShape& shape, const T* from, size_t stride, float* to) {
  constexpr size_t kFour = 4;
  for (size_t row = 0; row < shape.padded_seq(); row += kFour) {
    float* const at = to + row / kPanel * kPanel * shape.width + row % kPanel;
    const T* const rows = from + row * stride;
    const size_t real = std::min(kFour, shape.seq - std::min(row, shape.seq));
    size_t column = 0;
    for (; real == kFour && column + kFour <= shape.width; column += kFour) {
      TransposeFour(rows + column, stride, at + column * kPanel);
    }
    for (; column < shape.width; ++column) {
      for (size_t r = 0; r < kFour; ++r) {
        at[column * kPanel + r] = r < real ? Widen(rows[r * stride + column]) : 0.0f;
      }
    }
  }
}

// rows [count, width] of a padded fp32 matrix, times `scale`, into the caller's tensor.
template <class T>
void UnpackRows(const GroupShape& shape, size_t count, const float* from, float scale, T* to,
                size_t stride) {
  const DF d;
  const VF factor = hn::Set(d, scale);
  for (size_t row = 0; row < count; ++row) {
    ForEachVector(shape.width, [&](size_t i, auto part) HWY_ATTR {
      const VF value = Load(d, from + row * shape.padded_width() + i, part);
      Store(hn::Mul(value, factor), d, to + row * stride + i, part);
    });
  }
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_
