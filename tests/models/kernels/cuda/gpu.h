#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_GPU_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_GPU_H_

#include "models/device/device.h"

namespace sluice {

// The GPU under test, opened at the first call. Where there is none, or no cuBLASLt, every test of
// the program is skipped before it begins.
Device& Gpu();
// A stream of its own.
Stream GpuStream();
// Until all that is queued on it is done; a failure is one of the running test's.
void FinishOnGpu(Stream stream);

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_GPU_H_
