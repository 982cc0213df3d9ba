#ifndef SLUICE_MODELS_KERNELS_CUDA_CROSS_ENTROPY_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_CROSS_ENTROPY_CUH_

#include <cfloat>
#include <climits>
#include <cmath>

#include "models/kernels/cuda/async_copy.cuh"
#include "models/kernels/cuda/vector.cuh"

// One block per row. One pass finds the largest logit, its index and the sum of exponentials
// ("online softmax", Milakov & Gimelshein 2018), a second pass writes the gradient. A row that fits
// stays in shared memory in between, so that it is read from memory once.
namespace sluice::cuda {

constexpr int kEntropyThreads = 512;
constexpr int kEntropyWarps = kEntropyThreads / kWarp;
constexpr int64_t kEntropyValues = kEntropyThreads * kPart;
// Blocks of a multiprocessor that the registers allow, for narrow rows and those that are not kept.
constexpr int kEntropyBlocks = 3;
// Parts whose copies into shared memory a thread has under way.
constexpr int kEntropyAhead = 8;

// Of some of a row's logits: the largest, its index (the first of equals; no index where none is
// above -FLT_MAX) and the sum of e^(logit - largest). NaNs are passed over in the largest; the sum
// keeps them.
struct RowSoftmax {
  float largest;
  float sum;
  int index;
};

__device__ inline RowSoftmax Joined(const RowSoftmax& a, const RowSoftmax& b) {
  RowSoftmax joined;
  joined.largest = fmaxf(a.largest, b.largest);
  joined.sum =
      fmaf(a.sum, Exp(a.largest - joined.largest), b.sum * Exp(b.largest - joined.largest));
  const int index_a = a.largest == joined.largest ? a.index : INT_MAX;
  const int index_b = b.largest == joined.largest ? b.index : INT_MAX;
  joined.index = index_a < index_b ? index_a : index_b;
  return joined;
}

// The same in all lanes: a join is symmetric to the bit but for its fmaf, so the lower lane's part
// goes first.
__device__ inline RowSoftmax WarpJoined(RowSoftmax mine) {
#pragma unroll
  for (int lanes = 1; lanes < kWarp; lanes *= 2) {
    RowSoftmax other;
    other.largest = __shfl_xor_sync(kWholeWarp, mine.largest, lanes);
    other.sum = __shfl_xor_sync(kWholeWarp, mine.sum, lanes);
    other.index = __shfl_xor_sync(kWholeWarp, mine.index, lanes);
    mine = (threadIdx.x & lanes) == 0 ? Joined(mine, other) : Joined(other, mine);
  }
  return mine;
}

__device__ inline void AddPart(const float (&values)[kPart], int64_t first, RowSoftmax* row) {
  float largest = row->largest;
#pragma unroll
  for (int j = 0; j < kPart; ++j) largest = fmaxf(largest, values[j]);
  if (largest > row->largest) {
    row->sum *= Exp(row->largest - largest);
    row->largest = largest;
    int at = kPart;
#pragma unroll
    for (int j = kPart - 1; j >= 0; --j) at = values[j] == largest ? j : at;
    row->index = static_cast<int>(first) + at;
  }
  float sum = Exp(values[0] - largest);
#pragma unroll
  for (int j = 1; j < kPart; ++j) sum += Exp(values[j] - largest);
  row->sum += sum;
}

// What a block has found out about its row.
struct RowResult {
  RowSoftmax softmax;
  float factor;  // grad_scale / sum
};

// The slope of cap * tanh(x / cap), whose value is `capped`: 1 - tanh^2. `inverse_cap` is 0 where
// there is no cap, and the slope is 1.
__device__ inline float CapSlope(float capped, float inverse_cap) {
  if (inverse_cap == 0.0f) return 1.0f;
  const float tanh = capped * inverse_cap;
  return fmaf(-tanh, tanh, 1.0f);
}

// A row without a target: it counts nowhere, and its gradient, where one is wanted, is 0.
template <bool kAligned, class T>
__device__ inline void SkipRow(int64_t start, int64_t width, bool gradient, T* row) {
  if (!gradient) return;
  const float zeros[kPart] = {};
  ForParts<kAligned, kPart>(start, kEntropyValues, width, [&](auto whole, int64_t i) {
    StorePart<whole.value>(zeros, i, width, row);
  });
}

// A row's whole parts in shared memory, each at its place in the row. A thread reads only those
// that it has copied itself, so no barrier is needed. Indices are 32 bits here: the row is short.
template <class T>
class KeptRow {
 public:
  __device__ KeptRow(const T* row, int classes, int shift)
      : row_(row), classes_(classes), kept_(reinterpret_cast<T*>(DynamicShared()) + shift) {}

  __device__ void Load(int64_t i, float (&values)[kPart]) const {
    LoadAligned(kept_ + static_cast<int>(i), values);
  }

  // ForParts<true>, which finds the whole parts here.
  template <class Body>
  __device__ void ForParts(int first, const Body& body) const {
    constexpr int kStride = static_cast<int>(kEntropyValues);
    const int last = classes_ - kPart;
    int i = first < 0 ? first + kStride : first;
    int next = i;
#pragma unroll
    for (int k = 0; k < kEntropyAhead; ++k, next += kStride) StartCopy(next, last);
    if (first < 0) body(std::false_type(), first);
    for (; i <= last; i += kStride, next += kStride) {
      WaitForCopyGroups<kEntropyAhead - 1>();
      body(std::true_type(), i);
      StartCopy(next, last);
    }
    for (; i < classes_; i += kStride) body(std::false_type(), i);
  }

 private:
  // One group, also where there is no such part: groups are counted.
  __device__ void StartCopy(int i, int last) const {
    if (i <= last) {
#pragma unroll
      for (int j = 0; j < kPart; j += static_cast<int>(16 / sizeof(T))) {
        CopyAsync16(SharedAddress(kept_ + i + j), row_ + i + j, true);
      }
    }
    EndCopyGroup();
  }

  const T* row_;
  int classes_;
  T* kept_;
};

// A row is `width` long, of which `classes` are logits. kAligned: logits are aligned to 16 bytes. A
// row may still begin between two such places; its parts then begin `shift` values before it. kKept:
// whole parts are kept in shared memory. Neither changes what is computed, nor its order.
template <bool kAligned, bool kKept, class T>
__global__ void __launch_bounds__(kEntropyThreads, kEntropyBlocks)
    CrossEntropyKernel(int64_t rows, int64_t classes, int64_t width, T* logits,
                       const int32_t* targets, float grad_scale, float soft_cap, double* row_loss,
                       int32_t* row_correct) {
  static_assert(kAligned || !kKept);
  __shared__ RowSoftmax of_warp[kEntropyWarps];
  __shared__ RowResult of_row;
  const int64_t row = blockIdx.x;
  T* const at = logits + row * width;
  const int64_t shift = row * width % kPart;
  const int64_t start = static_cast<int64_t>(threadIdx.x) * kPart - shift;
  const int64_t target = row < rows ? targets[row] : -1;
  if (target < 0) {
    SkipRow<kAligned>(start, width, grad_scale != 0, at);
    if (row < rows && threadIdx.x == 0) row_loss[row] = row_correct[row] = 0;
    return;
  }
  // The thread whose parts have the target writes what follows from it, so that nobody waits for
  // its fp64. It reads the logit now, since its own gradient takes the place.
  const bool has_target =
      static_cast<uint64_t>(target + shift) / kPart % kEntropyThreads == threadIdx.x;
  const float logit = has_target ? Widen(at[target]) : 0.0f;
  const KeptRow<T> kept(at, static_cast<int>(classes), static_cast<int>(shift));
  const auto load = [&](auto whole, int64_t i, float fill, float(&values)[kPart]) {
    if constexpr (kKept && whole.value) {
      kept.Load(i, values);
    } else {
      LoadPart<whole.value>(at, i, classes, fill, values);
    }
  };

  RowSoftmax softmax = {-FLT_MAX, 0.0f, INT_MAX};
  const auto add = [&](auto whole, int64_t i) {
    float values[kPart];
    load(whole, i, -HUGE_VALF, values);
    AddPart(values, i, &softmax);
  };
  if constexpr (kKept) {
    kept.ForParts(static_cast<int>(start), add);
  } else {
    ForParts<kAligned, kPart>(start, kEntropyValues, classes, add);
  }
  softmax = WarpJoined(softmax);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = softmax;
  __syncthreads();
  if (threadIdx.x == 0) {
    RowSoftmax whole = of_warp[0];
#pragma unroll 1  // unrolled, it would take registers from all
    for (int w = 1; w < kEntropyWarps; ++w) whole = Joined(whole, of_warp[w]);
    of_row = {whole, grad_scale / whole.sum};
  }
  __syncthreads();
  const float largest = of_row.softmax.largest, factor = of_row.factor;
  const float inverse_cap = soft_cap == 0 ? 0.0f : 1.0f / soft_cap;
  if (grad_scale != 0) {
    ForParts<kAligned, kPart>(start, kEntropyValues, classes, [&](auto whole, int64_t i) {
      float values[kPart];
      load(whole, i, 0.0f, values);
#pragma unroll
      for (int j = 0; j < kPart; ++j) {
        const float scaled = Exp(values[j] - largest) * factor;
        values[j] = scaled * CapSlope(values[j], inverse_cap);
      }
      StorePart<whole.value>(values, i, classes, at);
    });
  }
  if (grad_scale != 0) {
    for (int64_t i = classes + threadIdx.x; i < width; i += kEntropyThreads) Narrow(0.0f, at + i);
  }
  if (!has_target) return;
  const double loss = log(static_cast<double>(of_row.softmax.sum)) +
                      (static_cast<double>(largest) - static_cast<double>(logit));
  row_loss[row] = loss;
  row_correct[row] = of_row.softmax.index == target;
  if (grad_scale == 0) return;
  // From fp64: the probability may be close to 1. It replaces what this thread wrote above.
  const auto gradient = static_cast<float>(static_cast<double>(grad_scale) * (exp(-loss) - 1));
  Narrow(gradient * CapSlope(logit, inverse_cap), at + target);
}

constexpr int kTotalThreads = 1024;

// One block: *loss and *correct from those of the rows, in an order that their number decides;
// added to what is there with `accumulate`.
__global__ void __launch_bounds__(kTotalThreads)
    CrossEntropyTotalKernel(int64_t rows, const double* row_loss, const int32_t* row_correct,
                            bool accumulate, double* loss, int64_t* correct) {
  __shared__ double losses[kTotalThreads / kWarp];
  __shared__ long long counts[kTotalThreads / kWarp];
  double sum = 0;
  long long count = 0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < rows; row += kTotalThreads) {
    sum += row_loss[row];
    count += row_correct[row];
  }
  sum = WarpSum(sum);
  count = WarpSum(count);
  if (threadIdx.x % kWarp == 0) {
    losses[threadIdx.x / kWarp] = sum;
    counts[threadIdx.x / kWarp] = count;
  }
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  sum = WarpSum(losses[threadIdx.x]);
  count = WarpSum(counts[threadIdx.x]);
  if (threadIdx.x == 0) {
    *loss = accumulate ? *loss + sum : sum;
    *correct = accumulate ? *correct + count : count;
  }
}
static_assert(kTotalThreads == kWarp * kWarp);

constexpr int kCapThreads = 256;
constexpr int64_t kCapValues = kCapThreads * kPart;  // of a block

// x = cap * tanh(x / cap), in place; NaN stays one.
template <bool kAligned, class T>
__global__ void __launch_bounds__(kCapThreads) SoftCapKernel(int64_t n, float cap, T* x) {
  const int64_t start = (static_cast<int64_t>(blockIdx.x) * kCapThreads + threadIdx.x) * kPart;
  ForOnePart<kAligned, kPart>(start, n, [&](auto whole, int64_t i) {
    float values[kPart];
    LoadPart<whole.value>(x, i, n, 0.0f, values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) values[j] = cap * tanhf(values[j] / cap);
    StorePart<whole.value>(values, i, n, x);
  });
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_CROSS_ENTROPY_CUH_
