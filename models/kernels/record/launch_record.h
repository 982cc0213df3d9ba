#ifndef SLUICE_MODELS_KERNELS_RECORD_LAUNCH_RECORD_H_
#define SLUICE_MODELS_KERNELS_RECORD_LAUNCH_RECORD_H_

#include <utility>
#include <vector>

#include "models/kernels/record/kernel_launch.h"

namespace sluice {

// Collects the launches of this thread's calls of RecordedKernels() while it exists. There may be one
// per thread, and must be one where a function of that table is called.
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

#endif  // SLUICE_MODELS_KERNELS_RECORD_LAUNCH_RECORD_H_
