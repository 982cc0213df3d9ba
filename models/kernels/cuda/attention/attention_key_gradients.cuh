#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_KEY_GRADIENTS_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_KEY_GRADIENTS_CUH_

#include "models/kernels/cuda/attention/attention_backward.cuh"

namespace sluice::cuda::attention {

// Gradients of kRows keys and values. Scores are computed with a row for each key, so that a
// warp's weights and gradients are left factors as they lie in its registers. The tiles of queries
// of one head of the group follow those of the one before. Grid: x = batch * kv_heads, y = tiles of
// keys, the first (which most queries see) first, and in each the parts of the columns.
template <int kWidth, bool kLimited, bool kCapped>
SLUICE_DEVICE void KeyGradients(const AttentionArguments& args) {
  using Tile = KeyTile<kWidth>;
  constexpr int kRowTiles = Tile::kRowTiles;
  constexpr int kColumnTiles = Tile::kColumnTiles;
  constexpr int kColumns = Tile::kColumns;
  constexpr int kParts = kWidth / kColumns;
  const int first = BlockY() / kParts * Tile::kRows;
  const int column = BlockY() % kParts * kColumns;
  const int warp_row = Thread() / kWarpLanes * Tile::kWarpRows;
  const int key = first + warp_row;
  using Bounds = RowBounds<true, kLimited, Tile::kRows>;
  const int tiles =
      TilesOf(Bounds::BoundOf(args, BlockX(), first + Tile::kRows - 1), Tile::kStreamed);
  unsigned char* const own_keys = DynamicShared() + warp_row * Tile::kRowBytes;
  unsigned char* const own_values = own_keys + Tile::kRows * Tile::kRowBytes;
  unsigned char* const stages = DynamicShared() + 2 * Tile::kRows * Tile::kRowBytes;

  const int first_tile = first / Tile::kStreamed;
  const int tiles_of_head = tiles - first_tile;
  const auto copy_stage = [&](int step) {
    const uint32_t to = SharedAddress(stages + step % 2 * Tile::kStageBytes);
    const int query = (first_tile + step % tiles_of_head) * Tile::kStreamed;
    const int64_t head = BlockX() * args.group() + step / tiles_of_head;
    const auto queries = QueriesOf<const uint16_t>(args, args.q, head);
    const auto dout = OutputOf<const uint16_t>(args, args.dout, head);
    const RowStatistics* const statistics = args.statistics + head * args.padded_seq();
    CopyRows<Tile::kStreamed, kWidth, Tile::kThreads>(to, queries, query);
    CopyRows<Tile::kStreamed, kWidth, Tile::kThreads>(to + Tile::kStreamedBytes, dout, query);
    if (Thread() < Tile::kStreamed / 2) {
      CopyAsync16(to + static_cast<uint32_t>(2 * Tile::kStreamedBytes + Thread() * 16),
                  statistics + query + 2 * Thread(), true);
    }
  };
  const uint32_t key_tile = SharedAddress(DynamicShared());
  CopyRows<Tile::kRows, kWidth, Tile::kThreads>(
      key_tile, KeysOf<const uint16_t>(args, args.k, BlockX()), first);
  CopyRows<Tile::kRows, kWidth, Tile::kThreads>(key_tile + Tile::kRows * Tile::kRowBytes,
                                                KeysOf<const uint16_t>(args, args.v, BlockX()),
                                                first);
  copy_stage(0);
  Bounds::Keep(args, BlockX(), first, DynamicShared() + Tile::kSharedBytes);

  Sums<kRowTiles, kColumns / kMatrixColumns> dkeys;
  Sums<kRowTiles, kColumns / kMatrixColumns> dvalues;
  Clear<kRowTiles, kColumns / kMatrixColumns>(dkeys);
  Clear<kRowTiles, kColumns / kMatrixColumns>(dvalues);
  const ScoreScale scale = ScaleOf<kCapped>(args);
  const int steps = args.group() * tiles_of_head;
  for (int step = 0; step < steps; ++step) {
    WaitForCopies();
    SyncBlock();  // all copies of this tile have come, and nobody reads the former one any more
    if (step + 1 < steps) copy_stage(step + 1);
    const int query = (first_tile + step % tiles_of_head) * Tile::kStreamed;
    const int* const bounds =
        Bounds::template OfWarp<Tile::kWarpRows>(DynamicShared() + Tile::kSharedBytes);
    if (SeesNothing<true, kLimited, Tile::kWarpRows, Tile::kStreamed>(bounds, key, query)) continue;
    const unsigned char* const stage = stages + step % 2 * Tile::kStageBytes;
    const uint32_t query_tile = SharedAddress(stage);
    const uint32_t dout_tile = query_tile + Tile::kStreamedBytes;
    Sums<kRowTiles, kColumnTiles> weights;
    Sums<kRowTiles, kColumnTiles> gradients;
    RowsTimesRows<kWidth, kRowTiles, kColumnTiles>(RowsFirst<kWidth>(SharedAddress(own_keys)),
                                                   ChunksFirst<kWidth>(query_tile), weights);
    RowsTimesRows<kWidth, kRowTiles, kColumnTiles>(RowsFirst<kWidth>(SharedAddress(own_values)),
                                                   ChunksFirst<kWidth>(dout_tile), gradients);
    WeighByColumn<kCapped, kRowTiles, kColumnTiles>(scale, stage + 2 * Tile::kStreamedBytes,
                                                    weights, gradients);
    ClearUnseen<true, kLimited, kRowTiles, kColumnTiles>(bounds, key, query, weights);
    ClearUnseen<true, kLimited, kRowTiles, kColumnTiles>(bounds, key, query, gradients);
    LeftFactors<kRowTiles, kColumnTiles / 2> left;
    ToLeftFactors<kRowTiles, kColumnTiles>(weights, left);
    AddProduct<kWidth, kRowTiles, kColumnTiles / 2, kColumns>(
        left, RowsFirst<kWidth>(dout_tile + ColumnsFrom(column)), dvalues);
    ToLeftFactors<kRowTiles, kColumnTiles>(gradients, left);
    AddProduct<kWidth, kRowTiles, kColumnTiles / 2, kColumns>(
        left, RowsFirst<kWidth>(query_tile + ColumnsFrom(column)), dkeys);
  }
  Scale<kRowTiles, kColumns / kMatrixColumns>(args.scale, dkeys);
  StoreRows<kWidth, kRowTiles, kColumns>(dkeys, own_keys, KeysOf<uint16_t>(args, args.dk, BlockX()),
                                         key, column);
  StoreRows<kWidth, kRowTiles, kColumns>(dvalues, own_values,
                                         KeysOf<uint16_t>(args, args.dv, BlockX()), key, column);
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_KEY_GRADIENTS_CUH_
