// What models/kernels/cuda/async_copy.cuh declares, as the PTX manual describes it.
#include "models/kernels/cuda/async_copy.cuh"

#include "tests/models/kernels/cuda_emulation/block.h"

namespace sluice::cuda {

unsigned char* DynamicShared() { return reinterpret_cast<unsigned char*>(emulation::Shared()); }

uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(static_cast<const std::byte*>(shared) - emulation::Shared());
}

void CopyAsync16(uint32_t to, const void* from, bool real) {
  emulation::CopyLater(emulation::SharedAt(to, 16), from, 16, !real);
}
void WaitForCopies() { emulation::WaitForCopies(); }
void EndCopyGroup() { emulation::EndCopyGroup(); }
void WaitForCopyGroupsBut(int left) { emulation::WaitForCopyGroups(left); }

}  // namespace sluice::cuda
