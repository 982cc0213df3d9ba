#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_CUH_

#include <cuda_runtime.h>

#include "models/device/cuda_error.h"
#include "models/kernels/cuda/attention/attention_kernels.cuh"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda::attention {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerMultiprocessor)
    AttentionKernel(const __grid_constant__ AttentionArguments args) {
  Kernel::Run(args);
}

// Puts kernels on a stream.
struct StreamLauncher {
  const AttentionArguments& args;
  cudaStream_t stream;

  template <class Kernel>
  void operator()(Kernel) const {
    UseDeviceOf(stream);
    AttentionArguments widest = args;
    widest.width = kPlainMaxWidth;
    AllowSharedMemory<AttentionKernel<Kernel>>(Kernel::SharedBytes(widest));
    const AttentionGrid grid = Kernel::Grid(args);
    AttentionKernel<Kernel>
        <<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)), Kernel::kThreads,
           static_cast<size_t>(Kernel::SharedBytes(args)), stream>>>(args);
    NoteLastCudaError("attention");
  }
};

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_CUH_
