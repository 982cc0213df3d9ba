#ifndef SLUICE_MODELS_KERNELS_CUDA_KERNELS_H_
#define SLUICE_MODELS_KERNELS_CUDA_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "models/kernels/kernels.h"

namespace sluice {

// The widest head that attention takes there; making a wider one ends the process.
inline constexpr int64_t kWidestCudaHead = 256;

// Whether CudaKernels() can run here: FailedPrecondition in a build without CUDA, NotFound where
// cuBLASLt is missing (it says where it was looked for). Loads the library; needs no GPU.
absl::Status PrepareCudaKernels();

// Objects can be made, and sizes of work areas asked for, without a GPU. What goes wrong with
// queued work is reported by the Synchronize of the device (OpenCudaDevice) that is current on the
// calling thread. Not to be called in a build without CUDA.
const Kernels& CudaKernels();

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_CUDA_KERNELS_H_
