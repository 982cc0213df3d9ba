#include "models/kernels/cpu/widen.h"

#include <algorithm>

#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/widen.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void WidenRow(size_t n, const T* from, float* to) {
  const DF d;
  ForEachVector(
      n, [&](size_t i, auto part) HWY_ATTR { Store(Load(d, from + i, part), d, to + i, part); });
}

template <class T>
void NarrowRow(size_t n, const float* sums, const float* bias, const T* residual, T* to) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    VF value = Load(d, sums + i, part);
    if (bias != nullptr) value = hn::Add(value, Load(d, bias + i, part));
    if (residual != nullptr) value = hn::Add(value, Load(d, residual + i, part));
    Store(value, d, to + i, part);
  });
}

template <class T>
void WidenTile(const Tile<const void>& from, float* to) {
  const auto* data = static_cast<const T*>(from.data);
  const auto columns = static_cast<size_t>(from.columns);
  for (int64_t r = 0; r < from.rows; ++r)
    WidenRow(columns, data + r * from.stride, to + r * from.columns);
}

template <class T>
void NarrowTile(const float* sums, const float* bias, const void* residual, const Tile<void>& to) {
  auto* data = static_cast<T*>(to.data);
  const auto* added = static_cast<const T*>(residual);
  const auto columns = static_cast<size_t>(to.columns);
  for (int64_t r = 0; r < to.rows; ++r) {
    NarrowRow(columns, sums + r * to.columns, bias,
              added == nullptr ? nullptr : added + r * to.stride, data + r * to.stride);
  }
}

constexpr size_t kBlockRows = 32, kBlockColumns = 64, kBlockPairs = kBlockRows / 2;

// Two values of one column, the first in the low half.
HWY_INLINE uint32_t PairOf(float first, float second) {
  const hn::CappedTag<float, 1> d;
  const auto bits = [&](float value)
                        HWY_ATTR { return hn::GetLane(RoundToBFloat16(d, hn::Set(d, value))); };
  return bits(first) | bits(second) << 16;
}

// A block that has all its values.
void PackRows(const float* from, size_t stride, uint32_t* to) {
  const DF d;
  for (size_t pair = 0; pair < kBlockPairs; ++pair) {
    const float* const first = from + 2 * pair * stride;
    for (size_t i = 0; i < kBlockColumns; i += kLanes) {
      const auto low = RoundToBFloat16(d, hn::LoadU(d, first + i));
      const auto high = RoundToBFloat16(d, hn::LoadU(d, first + stride + i));
      const hn::RebindToUnsigned<DF> du;
      hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), du, to + pair * kBlockColumns + i);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// The same of a transposed block.
void PackColumns(const float* from, size_t stride, uint32_t* to) {
  const hn::FixedTag<uint32_t, 4> d4;
  const hn::FixedTag<float, 4> d;
  const auto pairs = [&](const float* at) HWY_ATTR {  // four pairs of a row of `from`
    const auto first = RoundToBFloat16(d, hn::LoadU(d, at));
    const auto second = RoundToBFloat16(d, hn::LoadU(d, at + 4));
    return hn::Or(hn::ConcatEven(d4, second, first),
                  hn::ShiftLeft<16>(hn::ConcatOdd(d4, second, first)));
  };
  for (size_t column = 0; column < kBlockColumns; column += 4) {
    const float* const rows = from + column * stride;
    for (size_t pair = 0; pair < kBlockPairs; pair += 4) {
      const float* const at = rows + 2 * pair;
      StoreTransposed(d4, pairs(at), pairs(at + stride), pairs(at + 2 * stride),
                      pairs(at + 3 * stride), to + pair * kBlockColumns + column, kBlockColumns);
    }
  }
}
#else
void PackColumns(const float* from, size_t stride, uint32_t* to) {
  for (size_t column = 0; column < kBlockColumns; ++column) {
    for (size_t pair = 0; pair < kBlockPairs; ++pair) {
      const float* const at = from + column * stride + 2 * pair;
      to[pair * kBlockColumns + column] = PairOf(at[0], at[1]);
    }
  }
}
#endif

// A block at an edge: `rows` and `columns` of it are there.
void PackEdge(const Tile<const float>& from, bool transposed, size_t rows, size_t columns,
              const float* first, uint32_t* to) {
  const auto value = [&](size_t row, size_t column) {
    if (row >= rows || column >= columns) return 0.0f;
    const auto stride = static_cast<size_t>(from.stride);
    return transposed ? first[column * stride + row] : first[row * stride + column];
  };
  for (size_t pair = 0; pair < kBlockPairs; ++pair) {
    for (size_t column = 0; column < kBlockColumns; ++column) {
      to[pair * kBlockColumns + column] =
          PairOf(value(2 * pair, column), value(2 * pair + 1, column));
    }
  }
}

}  // namespace

void PackPairs(const Tile<const float>& from, bool transposed, void* to) {
  const auto rows = static_cast<size_t>(transposed ? from.columns : from.rows);
  const auto columns = static_cast<size_t>(transposed ? from.rows : from.columns);
  const auto stride = static_cast<size_t>(from.stride);
  const size_t blocks_below = (rows + kBlockRows - 1) / kBlockRows;
  const size_t block_columns = (columns + kBlockColumns - 1) / kBlockColumns;
  const auto pack = [&](size_t across, size_t below) {
    const size_t row = below * kBlockRows, column = across * kBlockColumns;
    const float* const first =
        from.data + (transposed ? column * stride + row : row * stride + column);
    uint32_t* const block =
        static_cast<uint32_t*>(to) + (across * blocks_below + below) * kBlockPairs * kBlockColumns;
    const size_t real_rows = std::min(kBlockRows, rows - row);
    const size_t real_columns = std::min(kBlockColumns, columns - column);
    if (real_rows < kBlockRows || real_columns < kBlockColumns) {
      PackEdge(from, transposed, real_rows, real_columns, first, block);
    } else if (transposed) {
      PackColumns(first, stride, block);
    } else {
      PackRows(first, stride, block);
    }
  };
  // Along the rows of `from`, as memory is read fastest.
  const auto pack_columns = [&](size_t first, size_t end) {
    if (transposed) {
      for (size_t across = first; across < end; ++across) {
        for (size_t below = 0; below < blocks_below; ++below) pack(across, below);
      }
    } else {
      for (size_t below = 0; below < blocks_below; ++below) {
        for (size_t across = first; across < end; ++across) pack(across, below);
      }
    }
  };
  DivideAmongThreads(static_cast<int64_t>(block_columns),
                     RowsOfThread(static_cast<int64_t>(rows * kBlockColumns)),
                     [&](int64_t first, int64_t count) {
                       pack_columns(static_cast<size_t>(first), static_cast<size_t>(first + count));
                     });
}

void Widen(DType dtype, const Tile<const void>& from, float* to) {
  if (dtype == DType::kBFloat16) {
    WidenTile<BFloat16>(from, to);
  } else {
    WidenTile<float>(from, to);
  }
}

void Narrow(DType dtype, const float* sums, const float* bias, const void* residual,
            const Tile<void>& to) {
  if (dtype == DType::kBFloat16) {
    NarrowTile<BFloat16>(sums, bias, residual, to);
  } else {
    NarrowTile<float>(sums, bias, residual, to);
  }
}

void RoundToBFloat16Values(size_t n, const float* from, float* to) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const auto rounded = hn::ShiftLeft<16>(RoundToBFloat16(d, Load(d, from + i, part)));
    Store(hn::BitCast(d, rounded), d, to + i, part);
  });
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(Widen);
HWY_EXPORT(Narrow);
HWY_EXPORT(PackPairs);
HWY_EXPORT(RoundToBFloat16Values);

void Widen(DType dtype, const Tile<const void>& from, float* to) {
  HWY_DYNAMIC_DISPATCH(Widen)(dtype, from, to);
}

void Narrow(DType dtype, const float* sums, const float* bias, const void* residual,
            const Tile<void>& to) {
  HWY_DYNAMIC_DISPATCH(Narrow)(dtype, sums, bias, residual, to);
}

void PackPairs(const Tile<const float>& from, bool transposed, void* to) {
  HWY_DYNAMIC_DISPATCH(PackPairs)(from, transposed, to);
}

void RoundToBFloat16Values(size_t n, const float* from, float* to) {
  HWY_DYNAMIC_DISPATCH(RoundToBFloat16Values)(n, from, to);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
