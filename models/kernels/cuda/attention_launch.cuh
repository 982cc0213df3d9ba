#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_LAUNCH_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <atomic>

#include "models/kernels/cuda/attention_kernels.cuh"

namespace sluice::cuda::attention {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerMultiprocessor)
    AttentionKernel(const __grid_constant__ AttentionArguments args) {
  Kernel::Run(args);
}

// Lets the kernel have as much shared memory as this device gives, once for each device.
template <class Kernel>
void AllowSharedMemory(int bytes) {
  static std::atomic<uint64_t> allowed = 0;  // a bit for each device
  int device = 0;
  cudaGetDevice(&device);
  const uint64_t bit = uint64_t{1} << (device % 64);
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
  // The largest demand of any shape: kernels with a demand by shape have one of at most this.
  cudaFuncSetAttribute(AttentionKernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

// Puts kernels on a stream. What goes wrong is left for cudaGetLastError.
struct StreamLauncher {
  const AttentionArguments& args;
  cudaStream_t stream;

  template <class Kernel>
  void operator()(Kernel) const {
    AttentionArguments widest = args;
    widest.width = kPlainMaxWidth;
    AllowSharedMemory<Kernel>(Kernel::SharedBytes(widest));
    const AttentionGrid grid = Kernel::Grid(args);
    AttentionKernel<Kernel>
        <<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)), Kernel::kThreads,
           static_cast<size_t>(Kernel::SharedBytes(args)), stream>>>(args);
  }
};

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_LAUNCH_CUH_
