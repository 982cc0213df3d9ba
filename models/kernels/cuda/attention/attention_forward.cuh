#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_FORWARD_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_FORWARD_CUH_

#include <cmath>

#include "models/kernels/cuda/attention/attention_scores.cuh"
#include "models/kernels/cuda/attention/attention_softmax.cuh"
#include "models/kernels/cuda/attention/attention_tile.cuh"

namespace sluice::cuda::attention {

// One block's part of the forward pass: kQueries rows of a head, kRowTiles * 16 for each warp, over
// tiles of kKeys keys in ascending order (Dao 2023, FlashAttention-2, Algorithm 1). Keys and values
// of the next tile arrive while this one is worked on.
template <int kWidth>
struct ForwardTile {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarpLanes;
  static constexpr int kRowTiles = kWidth > 128 ? 1 : 2;
  static constexpr int kWarpRows = kRowTiles * kMatrixRows;
  static constexpr int kQueries = kWarps * kWarpRows;
  static constexpr int kKeys = kWidth > 96 ? 32 : 64;  // as the registers allow
  static constexpr int kRowBytes = TileLayout<kWidth>::kRowBytes;
  static constexpr int kStageBytes = 2 * kKeys * kRowBytes;  // keys, then values
  static constexpr int kSharedBytes = kQueries * kRowBytes + 2 * kStageBytes;

  static_assert(kStatisticsRows % kQueries == 0);
};

// Grid: x = batch * heads, y = tiles of queries, the last (which see most keys) first.
template <int kWidth, bool kLimited, bool kCapped>
SLUICE_DEVICE void AttendTile(const AttentionArguments& args) {
  using Tile = ForwardTile<kWidth>;
  constexpr int kRowTiles = Tile::kRowTiles;
  constexpr int kKeyTiles = Tile::kKeys / kMatrixColumns;
  const auto queries = QueriesOf<const uint16_t>(args, args.q, BlockX());
  const auto keys = KeysOf<const uint16_t>(args, args.k, KeyHeadOf(args, BlockX()));
  const auto values = KeysOf<const uint16_t>(args, args.v, KeyHeadOf(args, BlockX()));
  const int first = (BlocksY() - 1 - BlockY()) * Tile::kQueries;
  const int warp_row = Thread() / kWarpLanes * Tile::kWarpRows;
  const int query = first + warp_row;
  const int tiles = TilesOf(Smaller(first + Tile::kQueries, args.seq), Tile::kKeys);
  unsigned char* const own_rows = DynamicShared() + warp_row * Tile::kRowBytes;
  const uint32_t query_tile = SharedAddress(DynamicShared());
  const uint32_t stages = query_tile + Tile::kQueries * Tile::kRowBytes;

  const auto copy_stage = [&](int tile) {
    const uint32_t to = stages + tile % 2 * Tile::kStageBytes;
    CopyRows<Tile::kKeys, kWidth, Tile::kThreads>(to, keys, tile * Tile::kKeys);
    CopyRows<Tile::kKeys, kWidth, Tile::kThreads>(to + Tile::kStageBytes / 2, values,
                                                  tile * Tile::kKeys);
  };
  CopyRows<Tile::kQueries, kWidth, Tile::kThreads>(query_tile, queries, first);
  using Bounds = RowBounds<false, kLimited, Tile::kQueries>;
  Bounds::Keep(args, BlockX(), first, DynamicShared() + Tile::kSharedBytes);
  const int first_tile = Bounds::BoundOf(args, BlockX(), first) / Tile::kKeys;
  copy_stage(first_tile);

  const ScoreScale scale = ScaleOf<kCapped>(args);
  Sums<kRowTiles, kWidth / kMatrixColumns> out;
  Clear<kRowTiles, kWidth / kMatrixColumns>(out);
  RunningSoftmax<kRowTiles> softmax;
  SLUICE_UNROLL
  for (int i = 0; i < 2 * kRowTiles; ++i) {
    softmax.largest[i / 2][i % 2] = -INFINITY;
    softmax.sum[i / 2][i % 2] = 0;
  }
  for (int tile = first_tile; tile < tiles; ++tile) {
    WaitForCopies();
    SyncBlock();  // all copies of this tile have come, and nobody reads the former one any more
    if (tile + 1 < tiles) copy_stage(tile + 1);
    const int key = tile * Tile::kKeys;
    const int* const bounds =
        Bounds::template OfWarp<Tile::kWarpRows>(DynamicShared() + Tile::kSharedBytes);
    if (SeesNothing<false, kLimited, Tile::kWarpRows, Tile::kKeys>(bounds, query, key)) continue;
    const uint32_t stage = stages + tile % 2 * Tile::kStageBytes;
    Sums<kRowTiles, kKeyTiles> scores;
    RowsTimesRows<kWidth, kRowTiles, kKeyTiles>(RowsFirst<kWidth>(SharedAddress(own_rows)),
                                                ChunksFirst<kWidth>(stage), scores);
    ToHeldScores<kCapped, kRowTiles, kKeyTiles>(scale, scores);
    HideUnseen<false, kLimited, kRowTiles, kKeyTiles>(bounds, query, key, scores,
                                                      [](float& score) { score = -INFINITY; });
    AddToSoftmax<kLimited, kRowTiles, kKeyTiles, kWidth / kMatrixColumns>(scale.outer * kLog2E,
                                                                          scores, softmax, out);
    LeftFactors<kRowTiles, kKeyTiles / 2> weights;
    ToLeftFactors<kRowTiles, kKeyTiles>(scores, weights);
    AddProduct<kWidth, kRowTiles, kKeyTiles / 2, kWidth>(
        weights, RowsFirst<kWidth>(stage + Tile::kStageBytes / 2), out);
  }
  Normalize<kRowTiles, kWidth / kMatrixColumns>(scale.outer, query, args.seq, softmax,
                                                args.lse + BlockX() * args.seq, out);
  StoreRows<kWidth, kRowTiles, kWidth>(out, own_rows, OutputOf<uint16_t>(args, args.out, BlockX()),
                                       query, 0);
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_FORWARD_CUH_
