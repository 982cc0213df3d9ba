#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <atomic>

#include "models/device/cuda_error.h"
#include "models/kernels/cuda/attention/attention_kernels.cuh"

namespace sluice::cuda::attention {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerMultiprocessor)
    AttentionKernel(const __grid_constant__ AttentionArguments args) {
  Kernel::Run(args);
}

// Lets the kernel have this much shared memory, the most that any shape asks, or all that there is:
// heads that ask for more than that fail when they are launched. Once for each device.
template <class Kernel>
void AllowSharedMemory(int bytes) {
  static std::atomic<uint64_t> allowed = 0;  // a bit for each device
  int device = 0;
  cudaGetDevice(&device);
  const uint64_t bit = uint64_t{1} << (device % 64);
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
  int most = bytes;
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaFuncSetAttribute(AttentionKernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       bytes < most ? bytes : most);
  allowed.fetch_or(bit, std::memory_order_relaxed);
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
    AllowSharedMemory<Kernel>(Kernel::SharedBytes(widest));
    const AttentionGrid grid = Kernel::Grid(args);
    AttentionKernel<Kernel>
        <<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)), Kernel::kThreads,
           static_cast<size_t>(Kernel::SharedBytes(args)), stream>>>(args);
    NoteLastCudaError("attention");
  }
};

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_CUH_
