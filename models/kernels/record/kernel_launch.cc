#include "models/kernels/record/kernel_launch.h"

namespace sluice {

const char* KernelName(KernelKind kind) {
  switch (kind) {
    case KernelKind::kProductForward:
      return "product, forward";
    case KernelKind::kProductInputGrad:
      return "product, input gradient";
    case KernelKind::kProductInputGradGelu:
      return "product, with GELU'";
    case KernelKind::kProductWeightGrad:
      return "product, weight gradient";
    case KernelKind::kRounding:
      return "rounding to bf16";
    case KernelKind::kColumnSums:
      return "column sums";
    case KernelKind::kPartSums:
      return "sums of parts";
    case KernelKind::kAttentionForward:
      return "attention, forward";
    case KernelKind::kAttentionStatistics:
      return "attention, statistics";
    case KernelKind::kAttentionKeyGrad:
      return "attention, dK and dV";
    case KernelKind::kAttentionQueryGrad:
      return "attention, dQ";
    case KernelKind::kCudnnForward:
      return "cuDNN attention, forward";
    case KernelKind::kCudnnBackward:
      return "cuDNN attention, backward";
    case KernelKind::kPlainAttentionForward:
      return "plain attention, forward";
    case KernelKind::kPlainAttentionStatistics:
      return "plain attention, stat.";
    case KernelKind::kPlainAttentionKeyGrad:
      return "plain attention, dK, dV";
    case KernelKind::kPlainAttentionQueryGrad:
      return "plain attention, dQ";
    case KernelKind::kCachedAttention:
      return "attention with a cache";
    case KernelKind::kNormForward:
      return "norm, forward";
    case KernelKind::kNormBackward:
      return "norm, backward";
    case KernelKind::kActivationForward:
      return "activation, forward";
    case KernelKind::kActivationBackward:
      return "activation, backward";
    case KernelKind::kGatedForward:
      return "gate, forward";
    case KernelKind::kGatedBackward:
      return "gate, backward";
    case KernelKind::kRopeTable:
      return "table of positions";
    case KernelKind::kRope:
      return "rotary positions";
    case KernelKind::kNormRopeForward:
      return "norm and rope, forward";
    case KernelKind::kNormRopeBackward:
      return "norm and rope, backward";
    case KernelKind::kEmbeddingForward:
      return "embedding, forward";
    case KernelKind::kEmbeddingSort:
      return "embedding, sort";
    case KernelKind::kEmbeddingRows:
      return "embedding, backward";
    case KernelKind::kEmbeddingPositions:
      return "embedding, positions";
    case KernelKind::kCrossEntropy:
      return "cross-entropy";
    case KernelKind::kCrossEntropyTotal:
      return "cross-entropy, total";
    case KernelKind::kSoftCap:
      return "soft cap";
    case KernelKind::kDropout:
      return "dropout";
    case KernelKind::kScale:
      return "scale";
    case KernelKind::kAddition:
      return "addition";
    case KernelKind::kFill:
      return "fill";
    case KernelKind::kCopy:
      return "copy";
    case KernelKind::kBlockSquares:
      return "squares of gradients";
    case KernelKind::kSquareSums:
      return "sums of squares";
    case KernelKind::kFiniteCheck:
      return "finite check";
    case KernelKind::kHash:
      return "hash";
    case KernelKind::kOptimizer:
      return "optimizer";
  }
  return "";
}

}  // namespace sluice
