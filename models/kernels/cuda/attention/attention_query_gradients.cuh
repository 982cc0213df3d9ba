#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_QUERY_GRADIENTS_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_QUERY_GRADIENTS_CUH_

#include "models/kernels/cuda/attention/attention_backward.cuh"

namespace sluice::cuda::attention {

// Gradients of kRows queries. Grid: x = batch * heads, y = tiles of queries, the last first.
template <int kWidth, bool kLimited, bool kCapped>
SLUICE_DEVICE void QueryGradients(const AttentionArguments& args) {
  using Tile = QueryTile<kWidth>;
  constexpr int kRowTiles = Tile::kRowTiles;
  constexpr int kColumnTiles = Tile::kColumnTiles;
  const auto keys = KeysOf<const uint16_t>(args, args.k, KeyHeadOf(args, BlockX()));
  const auto values = KeysOf<const uint16_t>(args, args.v, KeyHeadOf(args, BlockX()));
  const int first = (BlocksY() - 1 - BlockY()) * Tile::kRows;
  const int warp_row = Thread() / kWarpLanes * Tile::kWarpRows;
  const int query = first + warp_row;
  const int tiles = TilesOf(Smaller(first + Tile::kRows, args.seq), Tile::kStreamed);
  unsigned char* const own_queries = DynamicShared() + warp_row * Tile::kRowBytes;
  unsigned char* const own_dout = own_queries + Tile::kRows * Tile::kRowBytes;
  const unsigned char* const own_statistics =
      DynamicShared() + Tile::kRowStatistics + warp_row * static_cast<int>(sizeof(RowStatistics));
  const uint32_t query_tile = SharedAddress(DynamicShared());
  const uint32_t stages = query_tile + 2 * Tile::kRows * Tile::kRowBytes;

  const auto copy_stage = [&](int tile) {
    const uint32_t to = stages + tile % 2 * Tile::kStageBytes;
    const int key = tile * Tile::kStreamed;
    CopyRows<Tile::kStreamed, kWidth, Tile::kThreads>(to, keys, key);
    CopyRows<Tile::kStreamed, kWidth, Tile::kThreads>(to + Tile::kStreamedBytes, values, key);
  };
  CopyRows<Tile::kRows, kWidth, Tile::kThreads>(
      query_tile, QueriesOf<const uint16_t>(args, args.q, BlockX()), first);
  CopyRows<Tile::kRows, kWidth, Tile::kThreads>(query_tile + Tile::kRows * Tile::kRowBytes,
                                                OutputOf<const uint16_t>(args, args.dout, BlockX()),
                                                first);
  if (Thread() < Tile::kRows / 2) {
    CopyAsync16(query_tile + static_cast<uint32_t>(Tile::kRowStatistics + Thread() * 16),
                args.statistics + BlockX() * args.padded_seq() + first + 2 * Thread(), true);
  }
  using Bounds = RowBounds<false, kLimited, Tile::kRows>;
  Bounds::Keep(args, BlockX(), first, DynamicShared() + Tile::kSharedBytes);
  const int first_tile = Bounds::BoundOf(args, BlockX(), first) / Tile::kStreamed;
  copy_stage(first_tile);

  Sums<kRowTiles, kWidth / kMatrixColumns> dqueries;
  Clear<kRowTiles, kWidth / kMatrixColumns>(dqueries);
  const ScoreScale scale = ScaleOf<kCapped>(args);
  for (int tile = first_tile; tile < tiles; ++tile) {
    WaitForCopies();
    SyncBlock();  // all copies of this tile have come, and nobody reads the former one any more
    if (tile + 1 < tiles) copy_stage(tile + 1);
    const int key = tile * Tile::kStreamed;
    const int* const bounds =
        Bounds::template OfWarp<Tile::kWarpRows>(DynamicShared() + Tile::kSharedBytes);
    if (SeesNothing<false, kLimited, Tile::kWarpRows, Tile::kStreamed>(bounds, query, key))
      continue;
    const uint32_t stage = stages + tile % 2 * Tile::kStageBytes;
    Sums<kRowTiles, kColumnTiles> weights;
    Sums<kRowTiles, kColumnTiles> gradients;
    RowsTimesRows<kWidth, kRowTiles, kColumnTiles>(RowsFirst<kWidth>(SharedAddress(own_queries)),
                                                   ChunksFirst<kWidth>(stage), weights);
    RowsTimesRows<kWidth, kRowTiles, kColumnTiles>(
        RowsFirst<kWidth>(SharedAddress(own_dout)),
        ChunksFirst<kWidth>(stage + Tile::kStreamedBytes), gradients);
    WeighByRow<kCapped, kRowTiles, kColumnTiles>(scale, own_statistics, weights, gradients);
    ClearUnseen<false, kLimited, kRowTiles, kColumnTiles>(bounds, query, key, gradients);
    LeftFactors<kRowTiles, kColumnTiles / 2> left;
    ToLeftFactors<kRowTiles, kColumnTiles>(gradients, left);
    AddProduct<kWidth, kRowTiles, kColumnTiles / 2, kWidth>(left, RowsFirst<kWidth>(stage),
                                                            dqueries);
  }
  Scale<kRowTiles, kWidth / kMatrixColumns>(args.scale, dqueries);
  StoreRows<kWidth, kRowTiles, kWidth>(dqueries, own_queries,
                                       QueriesOf<uint16_t>(args, args.dq, BlockX()), query, 0);
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_QUERY_GRADIENTS_CUH_
