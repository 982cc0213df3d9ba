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

// Fills weights and gradients for the queries from `query` and the keys from `key` on.
SLUICE_DEVICE void PlainGradients(const AttentionArguments& args, int query, int key,
                                  const PlainBackwardTiles& tiles) {
  const RowStatistics* const statistics = args.statistics + BlockX() * args.padded_seq() + query;
  ForEachScore(args.width, tiles.queries, tiles.keys, [&](int row, int column, float score) {
    const bool sees = query + row >= key + column;
    const float exponent = fmaf(score, args.scale * kLog2E, -statistics[row].log2_sum);
    tiles.weights[row * kPlainScoreStride + column] = sees ? exp2f(exponent) : 0.0f;
  });
  // The same thread meets the same four entries again.
  ForEachScore(args.width, tiles.dout, tiles.values, [&](int row, int column, float gradient) {
    const bool sees = query + row >= key + column;
    const int at = row * kPlainScoreStride + column;
    tiles.gradients[at] = sees ? tiles.weights[at] * (gradient - statistics[row].delta) : 0.0f;
  });
}

// Gradients of kPlainRows keys and values. Grid: x = batch * heads, y = tiles of keys.
template <class T, int kColumns>
SLUICE_DEVICE void PlainKeyGradients(const AttentionArguments& args) {
  const auto queries = QueriesOf<const T>(args, args.q, BlockX());
  const auto dout = OutputOf<const T>(args, args.dout, BlockX());
  const auto tiles = PlainBackwardTiles::Of(args.width);
  const int first = BlockY() * kPlainRows;
  LoadPlain(KeysOf<const T>(args, args.k, KeyHeadOf(args, BlockX())), first, tiles.keys);
  LoadPlain(KeysOf<const T>(args, args.v, KeyHeadOf(args, BlockX())), first, tiles.values);
  PlainSums<kColumns> dkeys;
  PlainSums<kColumns> dvalues;
  ClearPlain<kColumns>(dkeys);
  ClearPlain<kColumns>(dvalues);
  for (int query = first; query < args.seq; query += kPlainRows) {
    SyncBlock();  // nobody reads the former tile any more
    LoadPlain(queries, query, tiles.queries);
    LoadPlain(dout, query, tiles.dout);
    SyncBlock();
    PlainGradients(args, query, first, tiles);
    SyncBlock();
    AddRows<kColumns>(tiles.weights + PlainRow(), kPlainScoreStride, tiles.dout, args.width,
                      dvalues);
    AddRows<kColumns>(tiles.gradients + PlainRow(), kPlainScoreStride, tiles.queries, args.width,
                      dkeys);
  }
  StorePlain<T, kColumns>(dkeys, args.scale, first,
                          KeysOf<T>(args, args.dk, KeyHeadOf(args, BlockX())));
  StorePlain<T, kColumns>(dvalues, 1.0f, first,
                          KeysOf<T>(args, args.dv, KeyHeadOf(args, BlockX())));
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
  for (int key = 0; key < Smaller(first + kPlainRows, args.seq); key += kPlainRows) {
    SyncBlock();  // nobody reads the former tile any more
    LoadPlain(keys, key, tiles.keys);
    LoadPlain(values, key, tiles.values);
    SyncBlock();
    PlainGradients(args, first, key, tiles);
    SyncBlock();
    AddRows<kColumns>(tiles.gradients + PlainRow() * kPlainScoreStride, 1, tiles.keys, args.width,
                      dqueries);
  }
  StorePlain<T, kColumns>(dqueries, args.scale, first, QueriesOf<T>(args, args.dq, BlockX()));
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_BACKWARD_CUH_
