#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_CUH_

#include <cstdint>

#include "models/kernels/cuda/attention/attention_arguments.h"
#include "models/kernels/cuda/attention/attention_primitives.cuh"

// Tiles of bf16 rows in shared memory, and the products of a warp's rows with them.
namespace sluice::cuda::attention {

constexpr int kWarpLanes = 32;
constexpr int kMatrixRows = 16;    // rows of the left factor of one MultiplyAdd, and its depth
constexpr int kMatrixColumns = 8;  // columns of the right one
constexpr int kChunk = 8;          // bf16 values in 16 bytes

// A tile of rows of kWidth values. Chunks of 16 bytes are permuted within a row, so that the 8 rows
// of one matrix lie in 8 different banks of 16 bytes: whole rows of 128 bytes by exclusive or with
// the row, others (64 and 192 bytes: two rows' matrices share each 128 bytes) with half of it.
template <int kWidth>
struct TileLayout {
  static_assert(kWidth % 32 == 0);
  static constexpr int kRowBytes = kWidth * 2;
  static constexpr int kChunks = kWidth / kChunk;
  static constexpr int kMask = kWidth % 64 == 0 ? 7 : 3;
  static constexpr int kShift = kWidth % 64 == 0 ? 0 : 1;

  static constexpr SLUICE_DEVICE uint32_t Offset(int row, int chunk) {
    return static_cast<uint32_t>(row * kRowBytes + (chunk ^ ((row >> kShift) & kMask)) * 16);
  }
};

// Starts to copy rows first ... first + kRows - 1; what lies past the sequence's end or the head's
// width becomes zero. A thread keeps its chunk of a permuted group and its row modulo 8, so that
// all its places in the tile are at fixed distances.
template <int kRows, int kWidth, int kThreads>
SLUICE_DEVICE void CopyRows(uint32_t to, const HeadRows<const uint16_t>& from, int first) {
  using Layout = TileLayout<kWidth>;
  constexpr int kGroup = Layout::kMask + 1;
  constexpr int kStep = kThreads / kGroup;  // rows at a time
  static_assert(kRows % kStep == 0 && kStep % 8 == 0);
  const int own_row = Thread() / kGroup;
  const int own_chunk = Thread() % kGroup;
  const uint32_t own_place = to + Layout::Offset(own_row, own_chunk);
  const uint16_t* const own_source = from.Row(first + own_row) + own_chunk * kChunk;
  SLUICE_UNROLL
  for (int row = 0; row < kRows; row += kStep) {
    SLUICE_UNROLL
    for (int chunk = 0; chunk < Layout::kChunks; chunk += kGroup) {
      const bool real =
          first + own_row + row < from.seq && (own_chunk + chunk) * kChunk < from.width;
      // Where nothing is real nothing is read either, so the address may be anything.
      CopyAsync16(own_place + static_cast<uint32_t>(row * Layout::kRowBytes + chunk * 16),
                  own_source + row * from.stride + chunk * kChunk, real);
    }
  }
}

// One lane's addresses for LoadMatrices: the matrix at (row, chunk) of a tile is the lane's own
// address for (0, 0) with the chunk's bits changed, which is why rows are multiples of 8 and chunks
// are even.
template <int kWidth>
struct LaneAddress {
  using Layout = TileLayout<kWidth>;
  uint32_t lane;

  SLUICE_DEVICE uint32_t At(int row, int chunk) const {
    return (lane ^ static_cast<uint32_t>((chunk & Layout::kMask) * 16)) +
           static_cast<uint32_t>((chunk & ~Layout::kMask) * 16 + row * Layout::kRowBytes);
  }
};

// Matrices in the order (rows 0-7, chunk 0), (rows 8-15, 0), (rows 0-7, 1), (rows 8-15, 1): a left
// factor as it lies, or a right factor whose rows are the depth, transposed.
template <int kWidth>
SLUICE_DEVICE LaneAddress<kWidth> RowsFirst(uint32_t tile) {
  const int lane = Thread() % kWarpLanes;
  return {Fresh(tile + TileLayout<kWidth>::Offset(lane % 16, lane / 16))};
}

// (rows 0-7, chunk 0), (rows 0-7, 1), (rows 8-15, 0), (rows 8-15, 1): two right factors whose
// columns are the rows here.
template <int kWidth>
SLUICE_DEVICE LaneAddress<kWidth> ChunksFirst(uint32_t tile) {
  const int lane = Thread() % kWarpLanes;
  return {Fresh(tile + TileLayout<kWidth>::Offset(lane % 8 + lane / 16 * 8, lane / 8 % 2))};
}

// A warp's sums over kRowTiles * 16 rows and kColumnTiles * 8 columns.
template <int kRowTiles, int kColumnTiles>
using Sums = float[kRowTiles][kColumnTiles][4];
// The same values in bf16, as left factors.
template <int kRowTiles, int kDepthTiles>
using LeftFactors = uint32_t[kRowTiles][kDepthTiles][4];

template <int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void Clear(Sums<kRowTiles, kColumnTiles>& sums) {
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int n = 0; n < kColumnTiles; ++n) {
      SLUICE_UNROLL
      for (int e = 0; e < 4; ++e) sums[m][n][e] = 0;
    }
  }
}

// sums = rows * columns^T: both tiles have kWidth values a row.
template <int kWidth, int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void RowsTimesRows(LaneAddress<kWidth> rows, LaneAddress<kWidth> columns,
                                 Sums<kRowTiles, kColumnTiles>& sums) {
  Clear<kRowTiles, kColumnTiles>(sums);
  SLUICE_UNROLL_FOUR  // all 8 of the widest heads would load ahead until registers spill
      for (int k = 0; k < kWidth / kMatrixRows; ++k) {
    uint32_t left[kRowTiles][4];
    SLUICE_UNROLL
    for (int m = 0; m < kRowTiles; ++m) LoadMatrices(left[m], rows.At(m * kMatrixRows, 2 * k));
    SLUICE_UNROLL
    for (int n = 0; n < kColumnTiles; n += 2) {
      uint32_t right[4];
      LoadMatrices(right, columns.At(n * kMatrixColumns, 2 * k));
      SLUICE_UNROLL
      for (int m = 0; m < kRowTiles; ++m) {
        MultiplyAdd(sums[m][n], left[m], right[0], right[1]);
        MultiplyAdd(sums[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Columns of a tile of kWidth that begin this many bytes after those of its row; a multiple of 64
// columns, whose chunks are permuted among themselves.
constexpr SLUICE_DEVICE uint32_t ColumnsFrom(int column) {
  return static_cast<uint32_t>(column * 2);
}

// sums += left * tile, whose rows are the depth; the first kColumns columns of the tile.
template <int kWidth, int kRowTiles, int kDepthTiles, int kColumns>
SLUICE_DEVICE void AddProduct(const LeftFactors<kRowTiles, kDepthTiles>& left,
                              LaneAddress<kWidth> tile,
                              Sums<kRowTiles, kColumns / kMatrixColumns>& sums) {
  SLUICE_UNROLL
  for (int k = 0; k < kDepthTiles; ++k) {
    SLUICE_UNROLL
    for (int n = 0; n < kColumns / kMatrixColumns; n += 2) {
      uint32_t right[4];
      LoadMatricesTransposed(right, tile.At(k * kMatrixRows, n));
      SLUICE_UNROLL
      for (int m = 0; m < kRowTiles; ++m) {
        MultiplyAdd(sums[m][n], left[m][k], right[0], right[1]);
        MultiplyAdd(sums[m][n + 1], left[m][k], right[2], right[3]);
      }
    }
  }
}

// Two neighbouring tiles of sums lie across the lanes just as one left factor does.
template <int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void ToLeftFactors(const Sums<kRowTiles, kColumnTiles>& sums,
                                 LeftFactors<kRowTiles, kColumnTiles / 2>& left) {
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int n = 0; n < kColumnTiles; ++n) {
      left[m][n / 2][n % 2 * 2] = PackBFloat16(sums[m][n][0], sums[m][n][1]);
      left[m][n / 2][n % 2 * 2 + 1] = PackBFloat16(sums[m][n][2], sums[m][n][3]);
    }
  }
}

// The row, of its warp's, that sums[m][...][e] belong to in this lane, and the first of its two
// columns within a tile of 8.
SLUICE_DEVICE int LaneRow(int m, int e) {
  return m * kMatrixRows + Thread() % kWarpLanes / 4 + e / 2 * 8;
}
SLUICE_DEVICE int LaneColumn() { return Thread() % 4 * 2; }

// Where windows or documents end what a block's rows see, beside that no query sees a key behind it:
// of a query the first key that it sees, of a key the first query behind it that does not see it.
// Neither is ever less than the row before's. Without kLimited nothing is kept, and nothing hidden.
template <bool kRowsAreKeys, bool kLimited, int kRows>
struct RowBounds {
  static constexpr int kSharedBytes = kLimited ? kRows * static_cast<int>(sizeof(int)) : 0;

  static SLUICE_DEVICE int BoundOf(const AttentionArguments& args, int64_t index, int row) {
    if constexpr (!kLimited) return kRowsAreKeys ? args.seq : 0;
    const int32_t* const starts = StartsOf(args, index, kRowsAreKeys ? args.kv_heads : args.heads);
    if constexpr (kRowsAreKeys) return EndOfQueries(args, starts, Smaller(row, args.seq - 1));
    return FirstKey(args, starts, row);
  }

  // For the rows from `first` on, of head `index`; they are there after the next SyncBlock.
  static SLUICE_DEVICE void Keep(const AttentionArguments& args, int64_t index, int first,
                                 unsigned char* shared) {
    if (!kLimited || Thread() >= kRows) return;
    reinterpret_cast<int*>(shared)[Thread()] = BoundOf(args, index, first + Thread());
  }

  // Those of this warp's rows, kWarpRows of them. Asked for in a loop, it holds no registers outside.
  template <int kWarpRows>
  static SLUICE_DEVICE const int* OfWarp(const unsigned char* shared) {
    if constexpr (!kLimited) return nullptr;
    const auto thread = static_cast<int>(Fresh(static_cast<uint32_t>(Thread())));
    return reinterpret_cast<const int*>(shared) + thread / kWarpLanes * kWarpRows;
  }
};

// Whether none of a warp's rows sees any of the columns: the first row, of kWarpRows, and the first
// column are given, and the rows' bounds.
template <bool kRowsAreKeys, bool kLimited, int kWarpRows, int kColumns>
SLUICE_DEVICE bool SeesNothing(const int* bounds, int first_row, int first_column) {
  if constexpr (kRowsAreKeys) {
    return first_column + kColumns <= first_row ||
           (kLimited && first_column >= bounds[kWarpRows - 1]);
  } else {
    return first_column >= first_row + kWarpRows ||
           (kLimited && first_column + kColumns <= bounds[0]);
  }
}

// Calls hide(value) for a warp's values between a query and a key that it does not see.
template <bool kRowsAreKeys, bool kLimited, int kRowTiles, int kColumnTiles, class Hide>
SLUICE_DEVICE void HideUnseen(const int* bounds, int first_row, int first_column,
                              Sums<kRowTiles, kColumnTiles>& values, const Hide& hide) {
  constexpr int kRows = kRowTiles * kMatrixRows, kColumns = kColumnTiles * kMatrixColumns;
  const bool all_before = kRowsAreKeys ? first_column >= first_row + kRows - 1
                                       : first_column + kColumns - 1 <= first_row;
  const bool within = !kLimited || (kRowsAreKeys ? first_column + kColumns <= bounds[0]
                                                 : first_column >= bounds[kRows - 1]);
  if (all_before && within) return;
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      // A query's last key, or a key's first query, is in its own row.
      const int own = first_row + LaneRow(m, 2 * half);
      const int bound = kLimited ? bounds[LaneRow(m, 2 * half)] : 0;
      SLUICE_UNROLL
      for (int n = 0; n < kColumnTiles; ++n) {
        SLUICE_UNROLL
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          const int column = first_column + n * kMatrixColumns + LaneColumn() + e % 2;
          const bool sees = kRowsAreKeys ? own <= column && (!kLimited || column < bound)
                                         : column <= own && (!kLimited || column >= bound);
          if (!sees) hide(values[m][n][e]);
        }
      }
    }
  }
}

// Writes a warp's rows, from `first` of the sequence on, by way of `stage`: room for them in a tile
// of shared memory that no other warp touches. They are kColumns columns of the rows, from `column` on.
template <int kWidth, int kRowTiles, int kColumns>
SLUICE_DEVICE void StoreRows(const Sums<kRowTiles, kColumns / kMatrixColumns>& sums,
                             unsigned char* stage, const HeadRows<uint16_t>& to, int first,
                             int column) {
  using Layout = TileLayout<kWidth>;
  SyncWarp();  // the last reads of what lay there are done
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int n = 0; n < kColumns / kMatrixColumns; ++n) {
      SLUICE_UNROLL
      for (int e = 0; e < 4; e += 2) {
        unsigned char* const at = stage + Layout::Offset(LaneRow(m, e), n) + LaneColumn() * 2;
        *reinterpret_cast<uint32_t*>(at) = PackBFloat16(sums[m][n][e], sums[m][n][e + 1]);
      }
    }
  }
  SyncWarp();
  constexpr int kChunks = kColumns / kChunk;
  constexpr int kAll = kRowTiles * kMatrixRows * kChunks;
  for (int i = Thread() % kWarpLanes; i < kAll; i += kWarpLanes) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    if (first + row < to.seq && column + chunk * kChunk < to.width) {
      *reinterpret_cast<Bytes16*>(to.Row(first + row) + column + chunk * kChunk) =
          *reinterpret_cast<const Bytes16*>(stage + Layout::Offset(row, chunk));
    }
  }
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_CUH_
