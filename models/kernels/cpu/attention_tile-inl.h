// The register tile and the panels of attention.h, for one Highway target at a time.
#if defined(SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define SLUICE_MODELS_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "models/kernels/cpu/attention.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {

// Two vectors wide, and as many rows as leave the sums in registers: 32 of them with AVX-512,
// else 16.
constexpr size_t kTileRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
constexpr size_t kTileColumns = 2 * kLanes;
static_assert(kQueryTile % kTileRows == 0 && kPanel % kTileColumns == 0);

// What the factors of a product are stored in. An fp32 value; or, where the processor multiplies
// them so, two bf16 values that follow each other in the sum, the first in the high half. Both give
// the same sum of bf16 values: VDPBF16PS adds the product of the high halves, rounds to fp32, adds
// that of the low halves and rounds again (Intel's manual, and seen on AMD's Zen 4), and a bf16
// product is exact in fp32. Only denormals differ, which it takes for 0.
using Pair = uint32_t;
// Terms of the sum in one of them.
template <class Unit>
constexpr size_t kTerms = std::is_same_v<Unit, Pair> ? 2 : 1;

template <class Unit>
constexpr size_t UnitsOf(size_t terms) {
  return (terms + kTerms<Unit> - 1) / kTerms<Unit>;
}

// A matrix by the distance between its rows and between its columns, so that a transpose is a swap.
template <class Unit>
struct Strided {
  const Unit* at;
  size_t row;
  size_t column;
};

HWY_INLINE VF AddProducts(VF sum, VF a, VF b) { return hn::MulAdd(a, b, sum); }

#if HWY_TARGET == HWY_AVX3
using VPair = hn::Vec<hn::RebindToUnsigned<DF>>;
// Highway 1.0 has no such product, and the intrinsic needs an instruction set that the rest of this
// target must not use.
HWY_INLINE VF AddProducts(VF sum, VPair a, VPair b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}
#endif

// c[kTileRows, kTileColumns] (+)= a[kTileRows, depth] * b[depth, kTileColumns].
template <bool kAccumulate, class Unit>
HWY_NOINLINE void Tile(size_t depth, Strided<Unit> a, const Unit* HWY_RESTRICT b, size_t b_row,
                       float* HWY_RESTRICT c, size_t c_row) {
  const DF d;
  const hn::Rebind<Unit, DF> du;
  VF left[kTileRows];
  VF right[kTileRows];
  HWY_UNROLL(12)
  for (size_t r = 0; r < kTileRows; ++r) {
    left[r] = kAccumulate ? hn::LoadU(d, c + r * c_row) : hn::Zero(d);
    right[r] = kAccumulate ? hn::LoadU(d, c + r * c_row + kLanes) : hn::Zero(d);
  }
  for (size_t i = 0; i < depth; ++i) {
    const auto b0 = hn::LoadU(du, b + i * b_row);
    const auto b1 = hn::LoadU(du, b + i * b_row + kLanes);
    const Unit* HWY_RESTRICT column = a.at + i * a.column;
    HWY_UNROLL(12)
    for (size_t r = 0; r < kTileRows; ++r) {
      const auto value = hn::Set(du, column[r * a.row]);
      left[r] = AddProducts(left[r], value, b0);
      right[r] = AddProducts(right[r], value, b1);
    }
  }
  HWY_UNROLL(12)
  for (size_t r = 0; r < kTileRows; ++r) {
    hn::StoreU(left[r], d, c + r * c_row);
    hn::StoreU(right[r], d, c + r * c_row + kLanes);
  }
}

// c[kQueryTile, columns] (+)= a[kQueryTile, depth] * b[depth, columns]; columns are a multiple of
// kPanel, depth is in units.
template <bool kAccumulate, class Unit>
HWY_INLINE void RowTimesRows(size_t depth, Strided<Unit> a, const Unit* b, size_t b_row,
                             size_t columns, float* c, size_t c_row) {
  for (size_t column = 0; column < columns; column += kTileColumns) {
    for (size_t r = 0; r < kQueryTile; r += kTileRows) {
      Tile<kAccumulate, Unit>(depth, {a.at + r * a.row, a.row, a.column}, b + column, b_row,
                              c + r * c_row + column, c_row);
    }
  }
}

#if HWY_TARGET == HWY_AVX3
// While it lives, the thread's AMX tiles have the sizes that TilesOfScores takes: 0 and 1 are sums,
// 2 rows, 3 and 4 keys; 5 to 7 rows and keys of what the width has beyond multiples of 32. The
// compiler does not know of them.
class ScoreTiles {
 public:
  explicit ScoreTiles(size_t width) {
    const size_t rest = UnitsOf<Pair>(width) % kLanes;
    Sizes sizes;
    for (const size_t sums : {0, 1}) sizes.Set(sums, kQueryTile, kLanes);
    sizes.Set(2, kQueryTile, kLanes);
    for (const size_t keys : {3, 4}) sizes.Set(keys, kLanes, kLanes);
    if (rest > 0) {
      sizes.Set(5, kQueryTile, rest);
      for (const size_t keys : {6, 7}) sizes.Set(keys, rest, kLanes);
    }
    asm volatile("ldtilecfg %0" : : "m"(sizes));
  }
  ~ScoreTiles() { asm volatile("tilerelease"); }
  ScoreTiles(const ScoreTiles&) = delete;
  ScoreTiles& operator=(const ScoreTiles&) = delete;

 private:
  // As LDTILECFG reads it (Intel's manual, volume 1, 18.3).
  struct alignas(64) Sizes {
    void Set(size_t tile, size_t rows_of, size_t values) {
      row_bytes[tile] = static_cast<uint16_t>(values * sizeof(float));
      rows[tile] = static_cast<uint8_t>(rows_of);
    }
    uint8_t palette = 1, first_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  };
};

// c[kQueryTile, kPanel] = a[kQueryTile, depth] * the panel b[depth, kPanel], by tiles.
HWY_INLINE void TilesOfScores(size_t depth, const Pair* a, size_t a_row, const Pair* b, float* c,
                              size_t c_row) {
  static_assert(kPanel == 2 * kLanes && sizeof(Pair) == sizeof(float));
  const size_t a_bytes = a_row * sizeof(Pair), c_bytes = c_row * sizeof(float);
  constexpr size_t kPanelBytes = kPanel * sizeof(Pair);
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1" : : :);
  size_t i = 0;
  for (; i + kLanes <= depth; i += kLanes) {
    asm volatile(
        "tileloadd (%0,%1,1), %%tmm2\n\t"
        "tileloadd (%2,%3,1), %%tmm3\n\t"
        "tileloadd 64(%2,%3,1), %%tmm4\n\t"
        "tdpbf16ps %%tmm3, %%tmm2, %%tmm0\n\t"
        "tdpbf16ps %%tmm4, %%tmm2, %%tmm1"
        :
        : "r"(a + i), "r"(a_bytes), "r"(b + i * kPanel), "r"(kPanelBytes)
        : "memory");
  }
  if (i < depth) {
    asm volatile(
        "tileloadd (%0,%1,1), %%tmm5\n\t"
        "tileloadd (%2,%3,1), %%tmm6\n\t"
        "tileloadd 64(%2,%3,1), %%tmm7\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm0\n\t"
        "tdpbf16ps %%tmm7, %%tmm5, %%tmm1"
        :
        : "r"(a + i), "r"(a_bytes), "r"(b + i * kPanel), "r"(kPanelBytes)
        : "memory");
  }
  asm volatile(
      "tilestored %%tmm0, (%0,%1,1)\n\t"
      "tilestored %%tmm1, 64(%0,%1,1)"
      :
      : "r"(c), "r"(c_bytes)
      : "memory");
}
#endif

// Whether scores are made by AMX tiles, from factors of another kind than the other products.
template <class Unit, class Score>
constexpr bool kByTiles = !std::is_same_v<Unit, Score>;

// c[kQueryTile, key - base] = a[kQueryTile, width] * (the panels of b, transposed) for the keys
// from `first`, rounded down, to `end`, rounded up to whole panels. By tiles only while ScoreTiles
// lives.
template <bool kTiles, class Unit>
HWY_INLINE void RowTimesPanels(size_t width, const Unit* a, size_t a_row, const Unit* panels,
                               size_t first, size_t end, size_t base, float* c, size_t c_row) {
  const size_t depth = UnitsOf<Unit>(width);
  for (size_t key = RoundDown(first, kPanel); key < end; key += kPanel) {
    const Unit* const panel = panels + key * depth;
    float* const scores = c + key - base;
#if HWY_TARGET == HWY_AVX3
    if constexpr (kTiles) {
      TilesOfScores(depth, a, a_row, panel, scores, c_row);
      continue;
    }
#endif
    RowTimesRows<false, Unit>(depth, {a, a_row, 1}, panel, kPanel, kPanel, scores, c_row);
  }
}

// `n` products become scores: times `scale`, then cap * tanh(score / cap).
HWY_INLINE void CapScores(size_t n, float scale, float cap, float* scores) {
  const DF d;
  const VF factor = hn::Set(d, cap);
  const VF inverse = hn::Set(d, scale / cap);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF score = Load(d, scores + i, part);
    Store(hn::Mul(factor, TanhOf(hn::Mul(score, inverse))), d, scores + i, part);
  });
}

struct RowSoftmax {
  float lse;
  float sum;
};

// `n` scores, once multiplied by `scale` > 0, become e^(score - largest).
HWY_INLINE RowSoftmax Exponentials(size_t n, float scale, float* scores) {
  const DF d;
  const VF least = hn::Set(d, -std::numeric_limits<float>::infinity());
  VF most = least;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    most = hn::Max(most, HeadOr(Load(d, scores + i, part), least, part));
  });
  const float largest = scale * MaxAll(most);
  const VF factor = hn::Set(d, scale);
  const VF offset = hn::Set(d, largest);
  VF sums = hn::Zero(d);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF value = ExpOf(hn::MulSub(Load(d, scores + i, part), factor, offset));
    sums = hn::Add(sums, OnlyHead(value, part));
    Store(value, d, scores + i, part);
  });
  const float sum = SumAll(sums);
  return {largest + std::log(sum), sum};
}

// `n` values, each rounded to bf16.
HWY_INLINE void RoundAll(size_t n, float* values) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const auto rounded = RoundToBFloat16(d, Load(d, values + i, part));
    Store(hn::BitCast(d, hn::ShiftLeft<16>(rounded)), d, values + i, part);
  });
}

HWY_INLINE float Widen(float x) { return x; }
HWY_INLINE float Widen(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The unit that begins at `at`, of whose terms the first `n` are there.
template <class Unit, class T>
HWY_INLINE Unit UnitAt(const T* at, size_t n) {
  if constexpr (kTerms<Unit> == 1) {
    return Widen(*at);
  } else {
    return static_cast<Pair>(at[0]) << 16 | (n > 1 ? at[1] : Pair{0});
  }
}

// A vector of units from kTerms times as many values.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadUnits(D d, const T* from) {
  if constexpr (kTerms<hn::TFromD<D>> == 1) {
    return Load(d, from, Full());
  } else {
    const hn::Repartition<BFloat16, D> d16;
    return hn::RotateRight<16>(hn::BitCast(d, hn::LoadU(d16, from)));
  }
}

// Rows of a tensor as those of a left factor, whose sums run along them: rows of
// UnitsOf(padded_width) units. Padding in both directions is zero.
template <class Unit, class T>
void PackLeft(const GroupShape& shape, const T* from, size_t stride, Unit* to) {
  const hn::Rebind<Unit, DF> d;
  constexpr size_t kStep = kLanes * kTerms<Unit>;
  const size_t columns = UnitsOf<Unit>(shape.padded_width());
  for (size_t row = 0; row < shape.seq; ++row) {
    const T* const values = from + row * stride;
    Unit* const units = to + row * columns;
    size_t i = 0;
    for (; i + kStep <= shape.width; i += kStep)
      hn::StoreU(LoadUnits(d, values + i), d, units + i / kTerms<Unit>);
    for (; i < shape.width; i += kTerms<Unit>)
      units[i / kTerms<Unit>] = UnitAt<Unit>(values + i, shape.width - i);
    std::fill(units + UnitsOf<Unit>(shape.width), units + columns, Unit{0});
  }
  std::fill(to + shape.seq * columns, to + shape.padded_seq() * columns, Unit{0});
}

// Rows of a tensor as those of a right factor, over which sums run: kTerms of them in each row of
// padded_width units. Padding in both directions is zero.
template <class Unit, class T>
void PackRight(const GroupShape& shape, const T* from, size_t stride, Unit* to) {
  if constexpr (kTerms<Unit> == 1) {
    PackLeft<Unit>(shape, from, stride, to);
  } else {
    const DF d;
    const hn::Rebind<Unit, DF> du;
    const size_t columns = shape.padded_width();
    for (size_t row = 0; row < shape.seq; row += 2) {
      const bool both = row + 1 < shape.seq;
      const T* const first = from + row * stride;
      const T* const second = both ? first + stride : first;
      const auto keep = hn::Set(du, both ? ~Unit{0} : ~Unit{0} << 16);
      Unit* const units = to + row / 2 * columns;
      ForEachVector(shape.width, [&](size_t i, auto part) HWY_ATTR {
        const auto high = hn::BitCast(du, Load(d, first + i, part));
        const auto low = hn::ShiftRight<16>(hn::BitCast(du, Load(d, second + i, part)));
        hn::StoreU(hn::And(hn::Or(high, low), keep), du, units + i);  // into the padding, too
      });
      std::fill(units + shape.width, units + columns, Unit{0});
    }
    std::fill(to + UnitsOf<Unit>(shape.seq) * columns, to + shape.padded_seq() / 2 * columns,
              Unit{0});
  }
}

// to[unit * kPanel + row] = the units from[row * stride + kTerms * unit] for 4 rows and 4 units.
#if HWY_TARGET == HWY_SCALAR
template <class Unit, class T>
void TransposeFour(const T* from, size_t stride, Unit* to) {
  for (size_t i = 0; i < 16; ++i)
    to[i % 4 * kPanel + i / 4] = UnitAt<Unit>(from + i / 4 * stride + i % 4, 1);
}
#else
template <class Unit, class T>
HWY_INLINE void TransposeFour(const T* from, size_t stride, Unit* to) {
  const hn::FixedTag<Unit, 4> d;
  StoreTransposed(d, LoadUnits(d, from), LoadUnits(d, from + stride),
                  LoadUnits(d, from + 2 * stride), LoadUnits(d, from + 3 * stride), to, kPanel);
}
#endif

// Rows of a tensor as the columns of a right factor: panels of kPanel of them, each stored unit by
// unit, to[panel][unit][row in panel]. Rows past the end are zero.
template <class Unit, class T>
void PackTransposed(const GroupShape& shape, const T* from, size_t stride, Unit* to) {
  constexpr size_t kFour = 4;
  constexpr size_t kStep = kFour * kTerms<Unit>;
  const size_t units = UnitsOf<Unit>(shape.width);
  for (size_t row = 0; row < shape.padded_seq(); row += kFour) {
    Unit* const at = to + row / kPanel * kPanel * units + row % kPanel;
    const T* const rows = from + row * stride;
    const size_t real = std::min(kFour, shape.seq - std::min(row, shape.seq));
    size_t column = 0;
    for (; real == kFour && column + kStep <= shape.width; column += kStep) {
      TransposeFour<Unit>(rows + column, stride, at + column / kTerms<Unit> * kPanel);
    }
    for (; column < shape.width; column += kTerms<Unit>) {
      for (size_t r = 0; r < kFour; ++r) {
        at[column / kTerms<Unit> * kPanel + r] =
            r < real ? UnitAt<Unit>(rows + r * stride + column, shape.width - column) : Unit{0};
      }
    }
  }
}

#if HWY_TARGET == HWY_AVX3
// A row of `n` values, rounded, as a row of a left factor; `to` may be where the row is.
HWY_INLINE void PairColumns(size_t n, const float* row, Pair* to) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  for (size_t i = 0; i < n; i += 2 * kLanes) {
    const auto first = RoundToBFloat16(d, hn::LoadU(d, row + i));
    const auto second = RoundToBFloat16(d, hn::LoadU(d, row + i + kLanes));
    hn::StoreU(hn::Or(hn::ShiftLeft<16>(hn::ConcatEven(du, second, first)),
                      hn::ConcatOdd(du, second, first)),
               du, to + i / 2);
  }
}

// Two rows of `n` values, rounded, as a row of a right factor or a column of a left one.
HWY_INLINE void PairRows(size_t n, const float* first, const float* second, Pair* to) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  for (size_t i = 0; i < n; i += kLanes) {
    const auto high = RoundToBFloat16(d, hn::LoadU(d, first + i));
    const auto low = RoundToBFloat16(d, hn::LoadU(d, second + i));
    hn::StoreU(hn::Or(hn::ShiftLeft<16>(high), low), du, to + i);
  }
}
#endif

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
