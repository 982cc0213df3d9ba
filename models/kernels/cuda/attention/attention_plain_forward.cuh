#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_FORWARD_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_FORWARD_CUH_

#include "models/kernels/cuda/attention/attention_plain_tile.cuh"

namespace sluice::cuda::attention {

// The running softmax of one row, the same in all threads that share the row.
struct PlainSoftmax {
  float largest = -INFINITY;
  float sum = 0;
};

SLUICE_DEVICE float MaxOfPlainRow(float x) {
  SLUICE_UNROLL
  for (int mask = 1; mask < kThreadsOfRow; mask *= 2) x = fmaxf(x, ShuffleXor(x, mask));
  return x;
}
SLUICE_DEVICE float SumOfPlainRow(float x) {
  SLUICE_UNROLL
  for (int mask = 1; mask < kThreadsOfRow; mask *= 2) x += ShuffleXor(x, mask);
  return x;
}

// The row's scores become weights relative to the largest so far. Returns by what earlier sums must
// be multiplied.
SLUICE_DEVICE float AddToPlainSoftmax(float* row, PlainSoftmax& softmax) {
  float largest = softmax.largest;
  for (int k = PlainColumn(); k < kPlainRows; k += kThreadsOfRow) largest = fmaxf(largest, row[k]);
  largest = MaxOfPlainRow(largest);
  const float offset = largest == -INFINITY ? 0 : largest;  // the row has seen no key yet
  float sum = 0;
  for (int k = PlainColumn(); k < kPlainRows; k += kThreadsOfRow) {
    row[k] = expf(row[k] - offset);
    sum += row[k];
  }
  const float change = expf(softmax.largest - offset);
  softmax = {largest, fmaf(softmax.sum, change, SumOfPlainRow(sum))};
  return change;
}

// One block's part: kPlainRows queries of one head. Grid: x = batch * heads, y = tiles of queries,
// the last (which see most keys) first. width <= kColumns * kThreadsOfRow.
template <class T, int kColumns>
SLUICE_DEVICE void AttendPlain(const AttentionArguments& args) {
  const auto keys = KeysOf<const T>(args, args.k, KeyHeadOf(args, BlockX()));
  const auto values = KeysOf<const T>(args, args.v, KeyHeadOf(args, BlockX()));
  const int first = (BlocksY() - 1 - BlockY()) * kPlainRows;
  const int tile_values = kPlainRows * PlainStride(args.width);
  float* const query_tile = reinterpret_cast<float*>(DynamicShared());
  float* const key_tile = query_tile + tile_values;
  float* const value_tile = key_tile + tile_values;
  float* const scores = value_tile + tile_values;
  float* const own_scores = scores + PlainRow() * kPlainScoreStride;

  LoadPlain(QueriesOf<const T>(args, args.q, BlockX()), first, query_tile);
  PlainSums<kColumns> out;
  ClearPlain<kColumns>(out);
  PlainSoftmax softmax;
  const int32_t* const starts = StartsOf(args, BlockX(), args.heads);
  for (int key = FirstKey(args, starts, first) / kPlainRows * kPlainRows;
       key < Smaller(first + kPlainRows, args.seq); key += kPlainRows) {
    SyncBlock();  // nobody reads the former tile any more
    LoadPlain(keys, key, key_tile);
    LoadPlain(values, key, value_tile);
    SyncBlock();
    ForEachScore(args.width, query_tile, key_tile, [&](int row, int column, float score) {
      const bool sees =
          key + column <= first + row && key + column >= FirstKey(args, starts, first + row);
      scores[row * kPlainScoreStride + column] = sees ? CapScore(args, score).value : -INFINITY;
    });
    SyncBlock();
    const float change = AddToPlainSoftmax(own_scores, softmax);
    SyncWarp();  // a row's threads are of one warp
    SLUICE_UNROLL
    for (int i = 0; i < kColumns; ++i) out[i] *= change;
    AddRows<kColumns>(own_scores, 1, value_tile, args.width, out);
  }
  StorePlain<T, kColumns>(out, 1.0f / softmax.sum, first, OutputOf<T>(args, args.out, BlockX()));
  const int row = first + PlainRow();
  if (PlainColumn() == 0 && row < args.seq) {
    args.lse[BlockX() * args.seq + row] = softmax.largest + logf(softmax.sum);
  }
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_FORWARD_CUH_
