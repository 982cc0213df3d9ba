#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_TILE_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_TILE_CUH_

#include <cmath>

#include "models/kernels/cuda/attention/attention_statistics.cuh"

// Attention in fp32 arithmetic, for fp32 tensors and for bf16 ones that the tensor cores' tiles do
// not fit: the same sums in tiles of 32 queries and 32 keys, without any demand on alignment.
namespace sluice::cuda::attention {

constexpr int kPlainThreads = 256;
constexpr int kPlainRows = 32;                                // of queries, and of keys
constexpr int kThreadsOfRow = kPlainThreads / kPlainRows;     // that share a row of sums
constexpr int kPlainScoreStride = kPlainRows + 1;             // against conflicts of banks
constexpr int kPlainScores = kPlainRows * kPlainScoreStride;  // values of a tile of scores
constexpr int kPlainMaxWidth = 256;                           // more does not fit in sm_80

// A score, scaled and capped, and its derivative by what it is before the cap.
struct PlainScore {
  float value;
  float slope;
};
SLUICE_DEVICE PlainScore CapScore(const AttentionArguments& args, float product) {
  const float score = product * args.scale;
  if (args.soft_cap == 0) return {score, 1};
  const float tanh = tanhf(score / args.soft_cap);
  return {args.soft_cap * tanh, fmaf(-tanh, tanh, 1.0f)};
}

// Of a tile of rows in shared memory: odd, against conflicts of banks.
SLUICE_HOST_DEVICE int PlainStride(int width) { return width | 1; }

// Bytes of `tiles` tiles of rows and `scores` tiles of scores.
SLUICE_HOST_DEVICE int PlainSharedBytes(int width, int tiles, int scores) {
  return (tiles * kPlainRows * PlainStride(width) + scores * kPlainScores) *
         static_cast<int>(sizeof(float));
}
constexpr int kPlainForwardTiles = 3;   // queries, keys, values
constexpr int kPlainBackwardTiles = 4;  // and dout

// A thread's sums of one row: columns Thread() % kThreadsOfRow + i * kThreadsOfRow.
template <int kColumns>
using PlainSums = float[kColumns];

SLUICE_DEVICE int PlainRow() { return Thread() / kThreadsOfRow; }
SLUICE_DEVICE int PlainColumn() { return Thread() % kThreadsOfRow; }

// Rows first ... first + kPlainRows - 1 in fp32; zeros past the sequence's end.
template <class T>
SLUICE_DEVICE void LoadPlain(const HeadRows<const T>& from, int first, float* to) {
  for (int i = Thread(); i < kPlainRows * from.width; i += kPlainThreads) {
    const int row = i / from.width;
    const int column = i % from.width;
    to[row * PlainStride(from.width) + column] =
        first + row < from.seq ? Widen(from.Row(first + row)[column]) : 0.0f;
  }
}

// Writes the thread's sums, times `scale`.
SLUICE_DEVICE void StoreValue(float value, float* to) { *to = value; }
SLUICE_DEVICE void StoreValue(float value, uint16_t* to) {
  *to = static_cast<uint16_t>(PackBFloat16(value, 0.0f) & 0xFFFF);
}
template <class T, int kColumns>
SLUICE_DEVICE void StorePlain(const PlainSums<kColumns>& sums, float scale, int first,
                              const HeadRows<T>& to) {
  const int row = first + PlainRow();
  SLUICE_UNROLL
  for (int i = 0; i < kColumns; ++i) {
    const int column = PlainColumn() + i * kThreadsOfRow;
    if (row < to.seq && column < to.width) {
      StoreValue(sums[i] * scale, to.Row(row) + column);
    }
  }
}

// Calls use(row, column, rows[row] . columns[column]) for the thread's four entries.
template <class Use>
SLUICE_DEVICE void ForEachScore(int width, const float* rows, const float* columns, Use use) {
  constexpr int kPairs = kPlainRows / 2;
  const int row = Thread() / kPairs * 2;
  const int column = Thread() % kPairs * 2;
  const int stride = PlainStride(width);
  const float* const a = rows + row * stride;
  const float* const b = columns + column * stride;
  float sums[2][2] = {{0, 0}, {0, 0}};
  for (int i = 0; i < width; ++i) {
    SLUICE_UNROLL
    for (int e = 0; e < 4; ++e) {
      sums[e / 2][e % 2] = fmaf(a[e / 2 * stride + i], b[e % 2 * stride + i], sums[e / 2][e % 2]);
    }
  }
  SLUICE_UNROLL
  for (int e = 0; e < 4; ++e) use(row + e / 2, column + e % 2, sums[e / 2][e % 2]);
}

// sums += sum over i of weights[i * step] * rows[i]: one row of a product.
template <int kColumns>
SLUICE_DEVICE void AddRows(const float* weights, int step, const float* rows, int width,
                           PlainSums<kColumns>& sums) {
  for (int k = 0; k < kPlainRows; ++k) {
    const float weight = weights[k * step];
    SLUICE_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      const int column = PlainColumn() + i * kThreadsOfRow;
      if (column < width) sums[i] = fmaf(weight, rows[k * PlainStride(width) + column], sums[i]);
    }
  }
}

template <int kColumns>
SLUICE_DEVICE void ClearPlain(PlainSums<kColumns>& sums) {
  SLUICE_UNROLL
  for (int i = 0; i < kColumns; ++i) sums[i] = 0;
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PLAIN_TILE_CUH_
