#ifndef SLUICE_MODELS_KERNELS_CUDA_KERNELS_H_
#define SLUICE_MODELS_KERNELS_CUDA_KERNELS_H_

#include "absl/status/status.h"
#include "models/kernels/kernels.h"
#include "models/spec/cuda_attention.h"

namespace sluice {

// Whether attention by our own kernels takes this shape: InvalidArgument unless its heads have at
// most 256 values.
absl::Status CheckCudaAttention(const AttentionShape& shape);
// Whether cuDNN's attention takes this shape: InvalidArgument unless it has bf16 heads of at most
// 128 values, a multiple of 8, no window and no soft cap. It does not take documents either: a call
// with `starts` fails as a kernel does.
absl::Status CheckCudnnAttention(const AttentionShape& shape);

// Whether CudaKernels() can run here: FailedPrecondition in a build without CUDA (or without
// cuDNN's headers), or where cuDNN is too old, NotFound where cuBLASLt or cuDNN is missing (it says
// where it was looked for). Loads the libraries; needs no GPU.
absl::Status PrepareCudaKernels(CudaAttention attention = CudaAttention::kSluice);

// Objects can be made, and sizes of work areas asked for, without a GPU. Errors of queued work are
// reported by the Synchronize of the device (OpenCudaDevice) that is current on the calling thread.
// Must not be called in a build without CUDA.
const Kernels& CudaKernels(CudaAttention attention = CudaAttention::kSluice);

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_CUDA_KERNELS_H_
