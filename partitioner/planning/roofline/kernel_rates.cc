#include "partitioner/planning/roofline/kernel_rates.h"

#include <algorithm>

namespace sluice {
namespace {

// A launch takes fixed + bound / share * (1 + half_seq / seq).
struct KernelRate {
  double fixed = 0;  // seconds: what a launch takes without work, and tiles that are partly empty
  double share = 1;  // of the roofline, of large work
  double half_seq = 0;  // of attention: the length of a sequence that reaches half of the share
};

// One of the shortest kernels: a rounding of 768 values takes 1.2 us, an addition of as many, too.
constexpr double kShortest = 1.2e-6;
constexpr KernelRate OfMemory(double share) { return {.fixed = kShortest, .share = share}; }

// Measured on an H200, of whose clock nothing was set (bench/results/gpu_check_h200.json): in a step
// of GPT-2 124M, 16 x 1024 tokens, kernel by kernel ("profile"), and at other sizes by benchmarks
// ("bench-kernels", the gap between two launches taken off). Where the two have a kernel at two
// sizes, both numbers of its rate follow; else `fixed` is kShortest. Of products, those of GPT-2
// 124M and of 1.5B and the head's were fitted, and what cuBLASLt launches beside them (fills, sums
// of parts) is counted as theirs. roofline_test.cc compares all of these with the file.
constexpr KernelRate RateOf(KernelKind kind, bool wide) {
  switch (kind) {
    case KernelKind::kProductForward:
      return {.fixed = 16.7e-6, .share = 0.78};
    case KernelKind::kProductInputGrad:
      return {.fixed = 5.7e-6, .share = 0.775};
    case KernelKind::kProductInputGradGelu:
      return {.fixed = 70e-6, .share = 0.771};
    case KernelKind::kProductWeightGrad:
      return {.fixed = 22.8e-6, .share = 0.828};
    case KernelKind::kAttentionForward:
      return wide ? KernelRate{.share = 0.368, .half_seq = 530}
                  : KernelRate{.share = 0.336, .half_seq = 540};
    case KernelKind::kAttentionKeyGrad:
      return {.share = 0.345, .half_seq = 405};
    case KernelKind::kAttentionQueryGrad:
      return {.share = 0.365, .half_seq = 405};
    case KernelKind::kCudnnForward:
      return wide ? KernelRate{.share = 0.624, .half_seq = 675}
                  : KernelRate{.share = 0.553, .half_seq = 1207};
    case KernelKind::kCudnnBackward:
      return wide ? KernelRate{.share = 0.45, .half_seq = 253}
                  : KernelRate{.share = 0.441, .half_seq = 185};
    case KernelKind::kPlainAttentionForward:  // with a window, 8192 long
      return {.share = 0.157};
    case KernelKind::kPlainAttentionKeyGrad:
    case KernelKind::kPlainAttentionQueryGrad:
      return {.share = 0.184};
    case KernelKind::kAttentionStatistics:
    case KernelKind::kPlainAttentionStatistics:
      return OfMemory(0.457);
    case KernelKind::kColumnSums:
      return OfMemory(0.74);
    case KernelKind::kPartSums:
      return {.fixed = 2.0e-6, .share = 0.7};
    case KernelKind::kCachedAttention:  // no step has it, so it was not measured
      return OfMemory(1);
    case KernelKind::kNormForward:
      return OfMemory(0.738);
    case KernelKind::kNormBackward:
      return OfMemory(0.762);
    case KernelKind::kActivationForward:
      return OfMemory(0.887);
    case KernelKind::kActivationBackward:
      return OfMemory(0.835);
    case KernelKind::kGatedForward:
      return OfMemory(0.905);
    case KernelKind::kGatedBackward:
      return OfMemory(0.89);
    case KernelKind::kRopeTable:
      return {.fixed = 4.4e-6, .share = 0.7};
    case KernelKind::kRope:
      return {.fixed = 2.6e-6, .share = 0.829};
    case KernelKind::kNormRopeForward:  // not measured: as norms
      return OfMemory(0.738);
    case KernelKind::kNormRopeBackward:
      return OfMemory(0.762);
    case KernelKind::kEmbeddingForward:
      return OfMemory(0.886);
    case KernelKind::kEmbeddingSort:
      return {.fixed = 4.8e-6};
    case KernelKind::kEmbeddingRows:  // not measured since windows of rows are added at once
      return OfMemory(0.5);
    case KernelKind::kEmbeddingPositions:  // partly from the second-level cache
      return OfMemory(1);
    case KernelKind::kCrossEntropy:
      return OfMemory(0.811);
    case KernelKind::kCrossEntropyTotal:
      return {.fixed = 4.1e-6};
    case KernelKind::kAddition:
      return OfMemory(0.902);
    case KernelKind::kCopy:
      return {.fixed = 1.5e-6, .share = 0.87};
    case KernelKind::kBlockSquares:
      return {.fixed = 3.8e-6, .share = 0.866};
    case KernelKind::kSquareSums:  // the longest row's chain of additions
      return {.fixed = 23e-6};
    case KernelKind::kFiniteCheck:
      return OfMemory(0.892);
    case KernelKind::kOptimizer:
      return OfMemory(0.862);
    case KernelKind::kRounding:
    case KernelKind::kSoftCap:
    case KernelKind::kDropout:
    case KernelKind::kScale:
    case KernelKind::kHash:
    case KernelKind::kFill:  // not measured at large sizes: as copies
      return OfMemory(0.87);
  }
  return {};
}

// Heads of which the kernels for 128 values are.
constexpr int64_t kNarrow = 64;

}  // namespace

double BoundSeconds(const KernelLaunch& launch, const DeviceSpec& sheet) {
  return std::max(launch.flops / sheet.flops(launch.arithmetic),
                  launch.bytes / sheet.memory_bandwidth);
}

double ExpectedSeconds(const KernelLaunch& launch, const DeviceSpec& sheet) {
  const KernelRate rate = RateOf(launch.kind, launch.width > kNarrow);
  const double filled = launch.seq == 0 ? 1 : 1 + rate.half_seq / static_cast<double>(launch.seq);
  return launch.launches * rate.fixed + BoundSeconds(launch, sheet) / rate.share * filled;
}

}  // namespace sluice
