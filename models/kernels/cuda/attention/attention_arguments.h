#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_ARGUMENTS_H_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_ARGUMENTS_H_

#include <cstdint>

// What attention's kernels are given, and where one head lies in it. Plain values and arithmetic,
// for host and device alike.
#ifdef __CUDACC__
#define SLUICE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SLUICE_HOST_DEVICE inline
#endif

namespace sluice::cuda::attention {

// What the backward pass needs of a query beside its rows. Queries past the sequence's end have an
// infinite log-sum, which makes all their weights 0.
struct alignas(8) RowStatistics {
  float log2_sum;  // of the softmax's denominator
  float delta;     // sum of dout * out (Dao et al. 2022, FlashAttention, Algorithm 4)
};

// Statistics are kept for whole tiles of queries; every tile's length divides this.
constexpr int kStatisticsRows = 128;
SLUICE_HOST_DEVICE int64_t PaddedSeq(int seq) {
  return static_cast<int64_t>(seq + kStatisticsRows - 1) / kStatisticsRows * kStatisticsRows;
}

// Tensors of one call, as in models/kernels/kernels.h; those that a kernel does not use are null.
struct AttentionArguments {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const int32_t* starts = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  RowStatistics* statistics = nullptr;  // [batch * heads, padded_seq]
  int64_t batch = 0;
  int seq = 0;
  int heads = 0;
  int kv_heads = 0;
  int width = 0;  // of a head
  int q_stride = 0;
  int kv_stride = 0;
  int window = 0;
  float scale = 0;  // of the scores
  float soft_cap = 0;

  SLUICE_HOST_DEVICE int group() const { return heads / kv_heads; }
  // Whether a query may not see all keys before it.
  SLUICE_HOST_DEVICE bool limited() const { return window != 0 || starts != nullptr; }
  SLUICE_HOST_DEVICE int64_t padded_seq() const { return PaddedSeq(seq); }
};

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// One head's rows in a tensor, `width` values each.
template <class T>
struct HeadRows {
  T* at = nullptr;
  int stride = 0;  // values from a row to the next
  int seq = 0;
  int width = 0;

  SLUICE_HOST_DEVICE T* Row(int row) const { return at + static_cast<int64_t>(row) * stride; }
};

// Rows of query head `index` of batch * heads: of q or its gradient,
template <class T, class Void>
SLUICE_HOST_DEVICE HeadRows<T> QueriesOf(const AttentionArguments& args, Void* q, int64_t index) {
  const int64_t batch = static_cast<int>(index) / args.heads;  // 64 bits divide slowly
  const int64_t head = static_cast<int>(index) % args.heads;
  const int64_t first = batch * args.seq * args.q_stride + head * args.width;
  return {static_cast<T*>(q) + first, args.q_stride, args.seq, args.width};
}

// and of out or its gradient.
template <class T, class Void>
SLUICE_HOST_DEVICE HeadRows<T> OutputOf(const AttentionArguments& args, Void* out, int64_t index) {
  const int64_t batch = static_cast<int>(index) / args.heads;  // 64 bits divide slowly
  const int64_t head = static_cast<int>(index) % args.heads;
  const int64_t stride = static_cast<int64_t>(args.heads) * args.width;
  const int64_t first = batch * args.seq * stride + head * args.width;
  return {static_cast<T*>(out) + first, args.heads * args.width, args.seq, args.width};
}

// Rows of key/value head `index` of batch * kv_heads, of k, v or their gradients.
template <class T, class Void>
SLUICE_HOST_DEVICE HeadRows<T> KeysOf(const AttentionArguments& args, Void* k, int64_t index) {
  const int64_t batch = static_cast<int>(index) / args.kv_heads;
  const int64_t head = static_cast<int>(index) % args.kv_heads;
  const int64_t first = batch * args.seq * args.kv_stride + head * args.width;
  return {static_cast<T*>(k) + first, args.kv_stride, args.seq, args.width};
}

// The key/value head that query head `index` of batch * heads reads: heads of all sequences follow
// each other, in whole groups.
SLUICE_HOST_DEVICE int64_t KeyHeadOf(const AttentionArguments& args, int64_t index) {
  return static_cast<int>(index) / args.group();
}

// What the documents of the sequence of head `index`, of `heads` heads in each, begin with.
SLUICE_HOST_DEVICE const int32_t* StartsOf(const AttentionArguments& args, int64_t index,
                                           int heads) {
  if (args.starts == nullptr) return nullptr;
  return args.starts + static_cast<int64_t>(static_cast<int>(index) / heads) * args.seq;
}

// The first key that a query sees; never less than the query before's. Queries past the end see
// what the last one does.
SLUICE_HOST_DEVICE int FirstKey(const AttentionArguments& args, const int32_t* starts, int query) {
  const int real = query < args.seq ? query : args.seq - 1;
  const int in_window = args.window != 0 && real >= args.window ? real - args.window + 1 : 0;
  return starts == nullptr || starts[real] < in_window ? in_window : starts[real];
}

// The first query behind `key` that does not see it, nor any key before it; args.seq if there is none.
SLUICE_HOST_DEVICE int EndOfQueries(const AttentionArguments& args, const int32_t* starts,
                                    int key) {
  int low = key + 1, high = args.seq;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (FirstKey(args, starts, middle) > key) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

// Tiles of `rows` that hold the first `seq` positions.
constexpr SLUICE_HOST_DEVICE int TilesOf(int seq, int rows) { return (seq + rows - 1) / rows; }

constexpr SLUICE_HOST_DEVICE int Smaller(int a, int b) { return a < b ? a : b; }

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_ARGUMENTS_H_
