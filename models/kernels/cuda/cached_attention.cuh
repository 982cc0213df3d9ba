#ifndef SLUICE_MODELS_KERNELS_CUDA_CACHED_ATTENTION_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_CACHED_ATTENTION_CUH_

#include "models/kernels/cuda/vector.cuh"

// Attention of a few rows to many keys (Dao et al. 2023, "Flash-Decoding"): the keys of one row and
// head are divided into parts, each with a block of its own, whose results are then combined in
// their order. How they are divided follows from how many keys the row sees, and from nothing else,
// so a row's bits do not depend on the rows beside it.
namespace sluice::cuda {

constexpr int kCachedThreads = 128;
constexpr int kCachedWarps = kCachedThreads / kWarp;
// Of a multiprocessor, at least: leaves a thread so many registers that none is spilled.
constexpr int kCachedBlocks = 4;
constexpr int kCachedMostWidth = 256;
constexpr int kCombineThreads = 256;

struct CachedArguments {
  int64_t rows, heads, kv_heads, width, q_stride, kv_stride;
  int64_t window;     // 0: none
  int64_t positions;  // of the cache
  int64_t first;      // position of the first row
  int64_t parts;      // of a row, at most
  float scale, soft_cap;
};

// What one row sees: `count` keys from position `begin` on, in parts of `each`.
struct CachedKeys {
  int64_t begin, count, each;
};
__device__ inline CachedKeys KeysOf(const CachedArguments& args, int64_t row) {
  const int64_t end = args.first + row + 1;
  const int64_t count = args.window > 0 && args.window < end ? args.window : end;
  const int64_t unit = int64_t{kCachedParts} * kCachedPartKeys;
  return {end - count, count, (count + unit - 1) / unit * kCachedPartKeys};
}

// The place of a part's result: the largest score, the sum of the weights relative to it, and the
// values with these weights.
__device__ inline int64_t PartAt(const CachedArguments& args, int64_t row_and_head, int64_t part) {
  return (row_and_head * args.parts + part) * (args.width + 2);
}

// One thread per value of a new row's keys, and of its values.
template <class T>
__global__ void __launch_bounds__(kCombineThreads)
    CachedAppendKernel(const __grid_constant__ CachedArguments args, const T* k, const T* v,
                       T* cache) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kCombineThreads + threadIdx.x;
  const int64_t row_width = args.kv_heads * args.width;
  const int64_t row = at / row_width;
  if (row >= args.rows) return;
  const int64_t head = at % row_width / args.width, i = at % args.width;
  const int64_t from = row * args.kv_stride + head * args.width + i;
  const int64_t to = (head * args.positions + args.first + row) * args.width + i;
  cache[to] = k[from];
  cache[to + args.positions * row_width] = v[from];
}

// The same for all threads of a block; `of_warps` is theirs.
template <class Combine>
__device__ inline float OfBlock(float x, float* of_warps, const Combine& combine) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    x = combine(x, __shfl_xor_sync(kWholeWarp, x, lanes));
  }
  __syncthreads();  // nobody reads the former ones any more
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = of_warps[0];
#pragma unroll
  for (int warp = 1; warp < kCachedWarps; ++warp) x = combine(x, of_warps[warp]);
  return x;
}

// The score of one key. The query ends in zeros.
template <bool kWhole, class T>
__device__ inline float CachedScore(const CachedArguments& args, const float* query, const T* key) {
  float part[kPart];
  float score = 0;
  for (int64_t i = 0; i < args.width; i += kPart) {
    LoadPart<kWhole>(key, i, args.width, 0.0f, part);
#pragma unroll
    for (int j = 0; j < kPart; ++j) score = fmaf(query[i + j], part[j], score);
  }
  return args.soft_cap == 0 ? score : args.soft_cap * tanhf(score / args.soft_cap);
}

// One part of the keys of a row and head. Grid: x = rows * heads, y = parts. Scores are a thread's
// each; values are added by groups of threads that have all columns together. kWhole: the cache is
// aligned to 16 bytes and the width a multiple of kPart.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kCachedThreads, kCachedBlocks)
    CachedPartKernel(const __grid_constant__ CachedArguments args, const T* q, const T* cache,
                     float* work) {
  __shared__ float query[kCachedMostWidth], weights[kCachedThreads], of_warps[kCachedWarps];
  __shared__ float sums[kCachedThreads * kPart];
  const int64_t row = blockIdx.x / args.heads, head = blockIdx.x % args.heads;
  const CachedKeys seen = KeysOf(args, row);
  const int64_t begin = blockIdx.y * seen.each;
  if (begin >= seen.count) return;
  const int64_t end = begin + seen.each < seen.count ? begin + seen.each : seen.count;
  const int64_t kv_head = head / (args.heads / args.kv_heads);
  const T* const keys = cache + (kv_head * args.positions + seen.begin) * args.width;
  const T* const values = keys + args.kv_heads * args.positions * args.width;

  const int thread = static_cast<int>(threadIdx.x);
  const int columns = static_cast<int>((args.width + kPart - 1) / kPart) * kPart;
  const T* const own_query = q + row * args.q_stride + head * args.width;
  for (int i = thread; i < columns; i += kCachedThreads) {
    query[i] = i < args.width ? args.scale * Widen(own_query[i]) : 0;
  }
  const int column = thread % (columns / kPart) * kPart, group = thread / (columns / kPart);
  const int groups = kCachedThreads / (columns / kPart);
  float out[kPart] = {}, part[kPart];
  float largest = -INFINITY, sum = 0;
  __syncthreads();
  for (int64_t tile = begin; tile < end; tile += kCachedThreads) {
    const int64_t key = tile + thread;
    const float score =
        key < end ? CachedScore<kWhole>(args, query, keys + key * args.width) : -INFINITY;
    const float most =
        OfBlock(fmaxf(score, largest), of_warps, [](float a, float b) { return fmaxf(a, b); });
    const float weight = expf(score - most), change = expf(largest - most);
    weights[thread] = weight;  // all have read the former ones
    sum = fmaf(sum, change, OfBlock(weight, of_warps, [](float a, float b) { return a + b; }));
    largest = most;
#pragma unroll
    for (int j = 0; j < kPart; ++j) out[j] *= change;
    const int count = end - tile < kCachedThreads ? static_cast<int>(end - tile) : kCachedThreads;
    for (int k = group < groups ? group : count; k < count; k += groups) {
      LoadPart<kWhole>(values + (tile + k) * args.width, column, args.width, 0.0f, part);
#pragma unroll
      for (int j = 0; j < kPart; ++j) out[j] = fmaf(weights[k], part[j], out[j]);
    }
  }

#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    if (group < groups) sums[group * columns + column + j] = out[j];
  }
  __syncthreads();
  float* const to = work + PartAt(args, blockIdx.x, blockIdx.y);
  for (int i = thread; i < args.width; i += kCachedThreads) {
    float total = sums[i];
    for (int g = 1; g < groups; ++g) total += sums[g * columns + i];
    to[2 + i] = total;
  }
  if (thread == 0) {
    to[0] = largest;
    to[1] = sum;
  }
}

// One thread per value of the result.
template <class T>
__global__ void __launch_bounds__(kCombineThreads)
    CachedCombineKernel(const __grid_constant__ CachedArguments args, const float* work, T* out) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kCombineThreads + threadIdx.x;
  const int64_t row_and_head = at / args.width, i = at % args.width;
  const int64_t row = row_and_head / args.heads;
  if (row >= args.rows) return;
  const CachedKeys seen = KeysOf(args, row);
  const int64_t parts = (seen.count + seen.each - 1) / seen.each;
  const float* const from = work + PartAt(args, row_and_head, 0);
  float largest = from[0];
  for (int64_t part = 1; part < parts; ++part) {
    largest = fmaxf(largest, from[part * (args.width + 2)]);
  }
  float sum = 0, value = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const float* const one = from + part * (args.width + 2);
    const float change = expf(one[0] - largest);
    sum = fmaf(one[1], change, sum);
    value = fmaf(one[2 + i], change, value);
  }
  Narrow(value / sum, out + at);
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_CACHED_ATTENTION_CUH_
