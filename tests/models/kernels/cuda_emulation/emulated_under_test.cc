// CUDA's kernels but for products and attention, their bodies and launches, on the CPU.
#include <cuda_runtime.h>

#include <cstdlib>

#include "models/device/cuda_error.h"
#include "models/kernels/cuda/table.h"
#include "tests/models/kernels/kernels_under_test.h"

namespace sluice {

uint64_t emulation::launch_seed = 1;

// What launches ask of the device.
void UseDeviceOf(cudaStream_t) {}
void NoteLastCudaError(absl::string_view) {}

const Kernels& KernelsUnderTest() {
  static constexpr Kernels kTable = cuda::TableWithoutProducts("CUDA's bodies on the CPU");
  return kTable;
}

}  // namespace sluice
