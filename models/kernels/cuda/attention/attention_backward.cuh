#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_BACKWARD_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_BACKWARD_CUH_

#include "models/kernels/cuda/attention/attention_scores.cuh"
#include "models/kernels/cuda/attention/attention_tile.cuh"

// The backward pass in two kernels: one whose blocks own keys (gradients of keys and values) and
// one whose blocks own queries. Each computes the scores once more, 7 products in place of 5, so
// that every sum is one block's, in the order of its tiles: nothing is added by atomics, no block
// waits for another, and no partial sums travel through memory.
namespace sluice::cuda::attention {

// A block's part of either: kRows rows that stay, of two tensors (keys and values, or queries and
// dout), kRowTiles * 16 for each warp; kStreamed rows at a time of the other two.
template <int kWidth, int kWarpCount, int kRowTileCount, int kStreamedRows>
struct BackwardTile {
  static constexpr int kWarps = kWarpCount;
  static constexpr int kThreads = kWarps * kWarpLanes;
  static constexpr int kRowTiles = kRowTileCount;
  static constexpr int kWarpRows = kRowTiles * kMatrixRows;
  static constexpr int kRows = kWarps * kWarpRows;
  static constexpr int kStreamed = kStreamedRows;
  static constexpr int kColumnTiles = kStreamed / kMatrixColumns;
  static constexpr int kRowBytes = TileLayout<kWidth>::kRowBytes;
  static constexpr int kStreamedBytes = kStreamed * kRowBytes;
  static constexpr int kStatisticsBytes = kStreamed * static_cast<int>(sizeof(RowStatistics));
  static constexpr int kStageBytes = 2 * kStreamedBytes + kStatisticsBytes;
  static constexpr int kSharedBytes = 2 * kRows * kRowBytes + 2 * kStageBytes;

  static_assert(kStageBytes % 128 == 0);
  static_assert(kStatisticsRows % kRows == 0 && kStatisticsRows % kStreamed == 0);
};

// As large as the registers allow: a lane holds kRowTiles * kWidth / 4 sums (keys; half of that for
// queries) and kRowTiles * kStreamed / 2 scores and gradients. A block of keys of the widest heads
// has half of the columns of both gradients, and another block, which computes the scores too, the
// others.
template <int kWidth>
struct KeyTile : BackwardTile<kWidth, 8, 1, 64> {
  static constexpr int kColumns = kWidth;
};
template <>
struct KeyTile<64> : BackwardTile<64, 4, 2, 32> {
  static constexpr int kColumns = 64;
};
template <>
struct KeyTile<256> : BackwardTile<256, 4, 1, 32> {
  static constexpr int kColumns = 128;
};
template <int kWidth>
constexpr int kQueryRowTiles = kWidth <= 128 ? 2 : 1;
template <int kWidth>
struct QueryTile : BackwardTile<kWidth, 4, kQueryRowTiles<kWidth>, 32> {
  using Base = BackwardTile<kWidth, 4, kQueryRowTiles<kWidth>, 32>;
  static constexpr int kRowStatistics = Base::kSharedBytes;  // where those of the rows begin
  static constexpr int kSharedBytes =
      Base::kSharedBytes + Base::kRows * static_cast<int>(sizeof(RowStatistics));
};

// A product of a query and a key becomes weight = e^(score - log sum), and the weight's gradient
// that of the product, divided by args.scale: weight * (gradient - delta), with kCapped times the
// slope 1 - tanh^2. With the query's statistics.
template <bool kCapped>
SLUICE_DEVICE void WeighScore(const ScoreScale& scale, RowStatistics query, float& weight,
                              float& gradient) {
  const float held = HeldScore<kCapped>(scale, weight);
  weight = FastExp2(fmaf(held, scale.outer * kLog2E, -query.log2_sum));
  gradient = weight * (gradient - query.delta);
  if constexpr (kCapped) gradient *= fmaf(-held, held, 1.0f);
}

template <int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void Scale(float scale, Sums<kRowTiles, kColumnTiles>& sums) {
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int n = 0; n < kColumnTiles; ++n) {
      SLUICE_UNROLL
      for (int e = 0; e < 4; ++e) sums[m][n][e] *= scale;
    }
  }
}

// Scores of keys (rows) with queries (columns, whose statistics these are).
template <bool kCapped, int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void WeighByColumn(const ScoreScale& scale, const unsigned char* statistics,
                                 Sums<kRowTiles, kColumnTiles>& weights,
                                 Sums<kRowTiles, kColumnTiles>& gradients) {
  struct alignas(16) Two {
    RowStatistics of[2];
  };
  SLUICE_UNROLL
  for (int n = 0; n < kColumnTiles; ++n) {
    const int column = n * kMatrixColumns + LaneColumn();
    const Two two = reinterpret_cast<const Two*>(statistics)[column / 2];
    SLUICE_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      SLUICE_UNROLL
      for (int e = 0; e < 4; ++e) {
        WeighScore<kCapped>(scale, two.of[e % 2], weights[m][n][e], gradients[m][n][e]);
      }
    }
  }
}

// Scores of queries (rows, whose statistics these are) with keys (columns).
template <bool kCapped, int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void WeighByRow(const ScoreScale& scale, const unsigned char* statistics,
                              Sums<kRowTiles, kColumnTiles>& weights,
                              Sums<kRowTiles, kColumnTiles>& gradients) {
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const RowStatistics query =
          reinterpret_cast<const RowStatistics*>(statistics)[LaneRow(m, 2 * half)];
      SLUICE_UNROLL
      for (int n = 0; n < kColumnTiles; ++n) {
        SLUICE_UNROLL
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          WeighScore<kCapped>(scale, query, weights[m][n][e], gradients[m][n][e]);
        }
      }
    }
  }
}

// Values between a query and a key that it does not see become 0.
template <bool kRowsAreKeys, bool kLimited, int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void ClearUnseen(const int* bounds, int first_row, int first_column,
                               Sums<kRowTiles, kColumnTiles>& values) {
  HideUnseen<kRowsAreKeys, kLimited, kRowTiles, kColumnTiles>(
      bounds, first_row, first_column, values, [](float& value) { value = 0; });
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_BACKWARD_CUH_
