// CUDA's kernels but for products and attention, their bodies and launches, on the CPU.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>

#include "models/device/cuda_error.h"
#include "models/kernels/cuda/launch_sizes.h"
#include "models/kernels/cuda/table.h"
#include "tests/models/kernels/cuda_emulation/launches_seen.h"
#include "tests/models/kernels/kernels_under_test.h"

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

// Of compute capability 8.0, which has the least of all that this project runs on.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 163 * 1024;
  return cudaSuccess;
}

namespace sluice {

namespace {

int launches_seen = 0;

}  // namespace

int emulation::LaunchesSeen() { return launches_seen; }

// What launches ask of the device, the latter after each.
void UseDeviceOf(cudaStream_t) {}
void NoteLastCudaError(absl::string_view) { ++launches_seen; }

const Kernels& KernelsUnderTest() {
  static constexpr Kernels kTable = cuda::TableWithoutProducts("CUDA's bodies on the CPU");
  return kTable;
}

int64_t RowWindow() { return cuda::kRowWindow; }

}  // namespace sluice
