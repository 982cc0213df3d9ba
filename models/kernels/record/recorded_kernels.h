#ifndef SLUICE_MODELS_KERNELS_RECORD_RECORDED_KERNELS_H_
#define SLUICE_MODELS_KERNELS_RECORD_RECORDED_KERNELS_H_

#include <utility>
#include <vector>

#include "models/kernels/cuda_kernels.h"
#include "models/kernels/kernels.h"
#include "models/kernels/record/kernel_launch.h"

namespace sluice {

// A GPU's kernels that compute nothing: each call adds the launches that CudaKernels() would queue
// for it, with their bytes and FLOPs, to the LaunchRecord of the calling thread. Addresses are
// never read, so that a layer may be called with any that are not null; they count as aligned to
// 16 bytes. Sizes of work areas are 0. Needs no GPU.
const Kernels& RecordedKernels(CudaAttention attention = CudaAttention::kSluice);

// Collects the launches of this thread's calls while it exists. There may be one per thread, and
// must be one where a function of RecordedKernels() is called.
class LaunchRecord {
 public:
  LaunchRecord();
  ~LaunchRecord();
  LaunchRecord(const LaunchRecord&) = delete;
  LaunchRecord& operator=(const LaunchRecord&) = delete;

  // What was called since the last Take, in order.
  std::vector<KernelLaunch> Take() { return std::exchange(launches_, {}); }

  // For RecordedKernels().
  static void Add(const KernelLaunch& launch);

 private:
  std::vector<KernelLaunch> launches_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_RECORD_RECORDED_KERNELS_H_
