#ifndef SLUICE_MODELS_KERNELS_CUDA_LAUNCH_H_
#define SLUICE_MODELS_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "models/device/cuda_error.h"
#include "models/device/device.h"
#include "models/kernels/cuda/launch_sizes.h"
#include "models/spec/dtype.h"

// Functions that the launchers of kernels share. A grid follows from the shape of the tensors
// alone, never from the device's number of multiprocessors: the order of sums depends on it.
namespace sluice::cuda {

// For a launch on this stream: makes its device the thread's current one.
inline cudaStream_t Queue(Stream stream) {
  const auto queue = static_cast<cudaStream_t>(stream.handle);
  UseDeviceOf(queue);
  return queue;
}

// What a block of a launch is made of.
struct BlockSize {
  int threads = 0;
  int64_t shared_bytes = 0;  // dynamic shared memory

  // NOLINTNEXTLINE(google-explicit-constructor): most blocks are a number of threads
  BlockSize(int with_threads, int64_t with_shared_bytes = 0)
      : threads(with_threads), shared_bytes(with_shared_bytes) {}
};

// Queues a kernel; an error is recorded under the kernel's name.
template <class... Parameters>
void Launch(const char* name, Stream stream, dim3 grid, BlockSize block,
            void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(block.threads));
  config.dynamicSmemBytes = static_cast<size_t>(block.shared_bytes);
  config.stream = Queue(stream);
  (void)cudaLaunchKernelEx(&config, kernel, arguments...);
  NoteLastCudaError(name);
}

// Lets kKernel, on the thread's current device, have this much dynamic shared memory, the most that
// any shape asks, or all that there is: a launch that asks for more fails. CUDA wants this only for
// more than 48 KiB, and once for each device.
template <auto kKernel>
void AllowSharedMemory(int bytes) {
  static std::atomic<uint64_t> allowed = 0;  // a bit for each device
  int device = 0;
  cudaGetDevice(&device);
  const uint64_t bit = uint64_t{1} << (device % 64);
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
  int most = bytes;
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, std::min(bytes, most));
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

// Blocks of a grid; x goes to 2^31 - 1.
inline unsigned Blocks(int64_t n, int64_t each) { return static_cast<unsigned>(CeilDiv(n, each)); }

// Whether 16 bytes at a time can be read and written from each of these.
template <class... Pointer>
bool Aligned(const Pointer*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ... | 0) % 16) == 0;
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_LAUNCH_H_
