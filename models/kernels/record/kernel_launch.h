#ifndef SLUICE_MODELS_KERNELS_RECORD_KERNEL_LAUNCH_H_
#define SLUICE_MODELS_KERNELS_RECORD_KERNEL_LAUNCH_H_

#include <cstddef>
#include <cstdint>

#include "models/spec/dtype.h"

namespace sluice {

// What a GPU runs for the calls of models/kernels/kernels.h: kernels of models/kernels/cuda, products
// of cuBLASLt, fills and copies. A product is one launch here; those that cuBLASLt adds as it sees
// fit (a fill before it, a sum where it is divided along k) are not known. KernelName has a name for
// each kind.
enum class KernelKind : uint8_t {
  kProductForward,
  kProductInputGrad,
  kProductInputGradGelu,  // times GELU', in the same kernel
  kProductWeightGrad,
  kRounding,    // fp32 to bf16
  kColumnSums,  // a bias's gradient, in parts ...
  kPartSums,    // ... which are then added; so are a norm's gradients
  kAttentionForward,
  kAttentionStatistics,
  kAttentionKeyGrad,
  kAttentionQueryGrad,
  kCudnnForward,  // cuDNN's attention: our own kernels are those above and below
  kCudnnBackward,
  kPlainAttentionForward,  // in fp32 tiles, without tensor cores
  kPlainAttentionStatistics,
  kPlainAttentionKeyGrad,
  kPlainAttentionQueryGrad,
  kCachedAttention,  // of new rows to a cache of keys
  kNormForward,
  kNormBackward,
  kActivationForward,
  kActivationBackward,
  kGatedForward,
  kGatedBackward,
  kRopeTable,
  kRope,
  kNormRopeForward,  // an RMS norm and rotary positions of heads
  kNormRopeBackward,
  kEmbeddingForward,
  kEmbeddingSort,
  kEmbeddingRows,
  kEmbeddingPositions,
  kCrossEntropy,
  kCrossEntropyTotal,
  kSoftCap,
  kDropout,
  kScale,
  kAddition,
  kFill,
  kCopy,
  kBlockSquares,
  kSquareSums,
  kFiniteCheck,
  kHash,  // of audits
  kOptimizer,
};
inline constexpr size_t kKernelKinds = static_cast<size_t>(KernelKind::kOptimizer) + 1;

// "product, forward"; at most 26 characters.
const char* KernelName(KernelKind kind);

// One launch, or several of a kind: FLOPs and bytes are those of all together.
struct KernelLaunch {
  KernelKind kind = KernelKind::kFill;
  int launches = 1;
  // Of products and attention; a multiply-add is two. Those that the kernels do: attention's are of
  // the scores that a causal mask leaves, in each of its seven products (of cuDNN's five). 0 of all
  // other kernels, which memory bounds.
  double flops = 0;
  DType arithmetic = DType::kBFloat16;  // of these FLOPs
  // That must be read or written, each once.
  double bytes = 0;
  // Of attention: the length of a sequence, and the width of a head.
  int64_t seq = 0;
  int64_t width = 0;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_RECORD_KERNEL_LAUNCH_H_
