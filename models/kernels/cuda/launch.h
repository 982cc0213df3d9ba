#ifndef SLUICE_MODELS_KERNELS_CUDA_LAUNCH_H_
#define SLUICE_MODELS_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "models/device/cuda_error.h"
#include "models/device/device.h"
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

// Queues a kernel; an error is recorded under the kernel's name.
template <class... Parameters>
void Launch(const char* name, Stream stream, dim3 grid, int threads, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = Queue(stream);
  (void)cudaLaunchKernelEx(&config, kernel, arguments...);
  NoteLastCudaError(name);
}

inline int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }
// Blocks of a grid; x goes to 2^31 - 1.
inline unsigned Blocks(int64_t n, int64_t each) { return static_cast<unsigned>(CeilDiv(n, each)); }

// Whether 16 bytes at a time can be read and written from each of these.
template <class... Pointer>
bool Aligned(const Pointer*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ... | 0) % 16) == 0;
}

// The offset at which the next part of a work area may begin.
inline size_t WorkBytes(int64_t bytes) { return static_cast<size_t>(CeilDiv(bytes, 64) * 64); }

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_LAUNCH_H_
