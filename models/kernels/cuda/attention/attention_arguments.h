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

// Tensors of one call, as in models/kernels/kernels.h; those that a kernel does not use are null.
struct AttentionArguments {
  const void* qkv = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  const void* dout = nullptr;
  void* dqkv = nullptr;
  RowStatistics* statistics = nullptr;  // [batch * heads, padded_seq]
  int64_t batch_heads = 0;
  int seq = 0;
  int heads = 0;
  int width = 0;    // of a head
  float scale = 0;  // of the scores: 1 / sqrt(width)

  SLUICE_HOST_DEVICE int64_t dim() const { return static_cast<int64_t>(heads) * width; }
  SLUICE_HOST_DEVICE int64_t padded_seq() const {
    return static_cast<int64_t>(seq + kStatisticsRows - 1) / kStatisticsRows * kStatisticsRows;
  }
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

enum class Part { kQuery = 0, kKey = 1, kValue = 2 };

// Rows of head `index` of batch * heads: of a part of [batch * seq, 3 * dim],
template <class T, class Void>
SLUICE_HOST_DEVICE HeadRows<T> PartOf(const AttentionArguments& args, Void* qkv, int64_t index,
                                      Part part) {
  const int64_t batch = static_cast<int>(index) / args.heads;  // 64 bits divide slowly
  const int64_t head = static_cast<int>(index) % args.heads;
  const int64_t dim = args.dim();
  const int64_t first = (batch * args.seq * 3 + static_cast<int>(part)) * dim + head * args.width;
  return {static_cast<T*>(qkv) + first, 3 * args.heads * args.width, args.seq, args.width};
}

// and of [batch * seq, dim].
template <class T, class Void>
SLUICE_HOST_DEVICE HeadRows<T> HeadOf(const AttentionArguments& args, Void* out, int64_t index) {
  const int64_t batch = static_cast<int>(index) / args.heads;  // 64 bits divide slowly
  const int64_t head = static_cast<int>(index) % args.heads;
  const int64_t first = batch * args.seq * args.dim() + head * args.width;
  return {static_cast<T*>(out) + first, args.heads * args.width, args.seq, args.width};
}

// Tiles of `rows` that hold the first `seq` positions.
constexpr SLUICE_HOST_DEVICE int TilesOf(int seq, int rows) { return (seq + rows - 1) / rows; }

constexpr SLUICE_HOST_DEVICE int Smaller(int a, int b) { return a < b ? a : b; }

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_ARGUMENTS_H_
