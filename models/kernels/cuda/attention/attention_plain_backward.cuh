#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_BACKWARD_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_BACKWARD_CUH_

#include "models/kernels/cuda/attention/attention_plain_tile.cuh"

namespace sluice::cuda::attention {

// The shared memory of either backward kernel.
struct PlainBackwardTiles {
  float* queries;
  float* dout;
  float* keys;
  float* values;
  float* weights;    // [query, key]
  float* gradients;  // of the scores

  static SLUICE_DEVICE PlainBackwardTiles Of(int width) {
    const int tile = kPlainRows * PlainStride(width);
    float* const at = reinterpret_cast<float*>(DynamicShared());
    float* const scores = at + kPlainBackwardTiles * tile;
    return {at, at + tile, at + 2 * tile, at + 3 * tile, scores, scores + kPlainScores};
  }
};

// Fills weights and gradients for the queries from `query` and the keys from `key` on, of query
// head `index` of batch * heads.
SLUICE_DEVICE void PlainGradients(const AttentionArguments& args, int64_t index, int query, int key,
                                  const PlainBackwardTiles& tiles) {
  const RowStatistics* const statistics = args.statistics + index * args.padded_seq() + query;
  const int32_t* const starts = StartsOf(args, index, args.heads);
  const auto sees = [&](int row, int column) {
    return key + column <= query + row && key + column >= FirstKey(args, starts, query + row);
  };
  ForEachScore(args.width, tiles.queries, tiles.keys, [&](int row, int column, float product) {
    const int at = row * kPlainScoreStride + column;
    const PlainScore score = CapScore(args, product);
    const float exponent = fmaf(score.value, kLog2E, -statistics[row].log2_sum);
    tiles.weights[at] = sees(row, column) ? exp2f(exponent) : 0.0f;
    tiles.gradients[at] = score.slope;
  });
  // The same thread meets the same four entries again.
  ForEachScore(args.width, tiles.dout, tiles.values, [&](int row, int column, float gradient) {
    const int at = row * kPlainScoreStride + column;
    const float centered = (gradient - statistics[row].delta) * tiles.gradients[at];
    tiles.gradients[at] = sees(row, column) ? tiles.weights[at] * centered : 0.0f;
  });
}

// Adds those of one query head, `index` of batch * heads, to the gradients of the tile's keys and
// values, from `first` on.
template <class T, int kColumns>
SLUICE_DEVICE void AddPlainKeyGradients(const AttentionArguments& args, int64_t index, int first,
                                        const PlainBackwardTiles& tiles, PlainSums<kColumns>& dkeys,
                                        PlainSums<kColumns>& dvalues) {
  const auto queries = QueriesOf<const T>(args, args.q, index);
  const auto dout = OutputOf<const T>(args, args.dout, index);
  const int32_t* const starts = StartsOf(args, index, args.heads);
  for (int query = first; query < args.seq && FirstKey(args, starts, query) < first + kPlainRows;
       query += kPlainRows) {
    SyncBlock();  // nobody reads the former tile any more
    LoadPlain(queries, query, tiles.queries);
    LoadPlain(dout, query, tiles.dout);
    SyncBlock();
    PlainGradients(args, index, query, first, tiles);
    SyncBlock();
    AddRows<kColumns>(tiles.weights + PlainRow(), kPlainScoreStride, tiles.dout, args.width,
                      dvalues);
    AddRows<kColumns>(tiles.gradients + PlainRow(), kPlainScoreStride, tiles.queries, args.width,
                      dkeys);
  }
}

// Gradients of kPlainRows keys and values, over the query heads of their group in order. Grid: x =
// batch * kv_heads, y = tiles of keys.
template <class T, int kColumns>
SLUICE_DEVICE void PlainKeyGradients(const AttentionArguments& args) {
  const auto tiles = PlainBackwardTiles::Of(args.width);
  const int first = BlockY() * kPlainRows;
  LoadPlain(KeysOf<const T>(args, args.k, BlockX()), first, tiles.keys);
  LoadPlain(KeysOf<const T>(args, args.v, BlockX()), first, tiles.values);
  PlainSums<kColumns> dkeys;
  PlainSums<kColumns> dvalues;
  ClearPlain<kColumns>(dkeys);
  ClearPlain<kColumns>(dvalues);
  for (int head = 0; head < args.group(); ++head) {
    AddPlainKeyGradients<T, kColumns>(args, BlockX() * args.group() + head, first, tiles, dkeys,
                                      dvalues);
  }
  StorePlain<T, kColumns>(dkeys, args.scale, first, KeysOf<T>(args, args.dk, BlockX()));
  StorePlain<T, kColumns>(dvalues, 1.0f, first, KeysOf<T>(args, args.dv, BlockX()));
}

// Gradients of kPlainRows queries. Grid: x = batch * heads, y = tiles of queries, the last first.
template <class T, int kColumns>
SLUICE_DEVICE void PlainQueryGradients(const AttentionArguments& args) {
  const auto keys = KeysOf<const T>(args, args.k, KeyHeadOf(args, BlockX()));
  const auto values = KeysOf<const T>(args, args.v, KeyHeadOf(args, BlockX()));
  const auto tiles = PlainBackwardTiles::Of(args.width);
  const int first = (BlocksY() - 1 - BlockY()) * kPlainRows;
  LoadPlain(QueriesOf<const T>(args, args.q, BlockX()), first, tiles.queries);
  LoadPlain(OutputOf<const T>(args, args.dout, BlockX()), first, tiles.dout);
  PlainSums<kColumns> dqueries;
  ClearPlain<kColumns>(dqueries);
  const int32_t* const starts = StartsOf(args, BlockX(), args.heads);
  for (int key = FirstKey(args, starts, first) / kPlainRows * kPlainRows;
       key < Smaller(first + kPlainRows, args.seq); key += kPlainRows) {
    SyncBlock();  // nobody reads the former tile any more
    LoadPlain(keys, key, tiles.keys);
    LoadPlain(values, key, tiles.values);
    SyncBlock();
    PlainGradients(args, BlockX(), first, key, tiles);
    SyncBlock();
    AddRows<kColumns>(tiles.gradients + PlainRow() * kPlainScoreStride, 1, tiles.keys, args.width,
                      dqueries);
  }
  StorePlain<T, kColumns>(dqueries, args.scale, first, QueriesOf<T>(args, args.dq, BlockX()));
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_BACKWARD_CUH_
