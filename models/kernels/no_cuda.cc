#include <cstdlib>

#include "models/kernels/cuda_kernels.h"

namespace sluice {

absl::Status PrepareCudaKernels(CudaAttention) {
  return absl::FailedPreconditionError(
      "this build has no CUDA; where there is nvcc, configure with -DSLUICE_CUDA=ON");
}

const Kernels& CudaKernels(CudaAttention) { std::abort(); }  // the contract: not to be called

}  // namespace sluice
