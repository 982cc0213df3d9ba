#ifndef SLUICE_MODELS_KERNELS_CUDA_ASYNC_COPY_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ASYNC_COPY_CUH_

#include <cstdint>

// A block's dynamic shared memory, and copies into it that hold no registers while they are under
// way (PTX ISA 8.0, section 9.7.8.22). Shared memory is addressed in bytes from its start. Compiled
// by anything but nvcc they are mere declarations, and tests/models/kernels/cuda_emulation brings a
// definition that runs on a CPU.
#ifdef __CUDACC__
#define SLUICE_DEVICE __device__ __forceinline__
#else
#define SLUICE_DEVICE inline
#endif

namespace sluice::cuda {

#ifdef __CUDACC__

// The block's dynamic shared memory, aligned to 128 bytes.
SLUICE_DEVICE unsigned char* DynamicShared() {
  extern __shared__ __align__(128) unsigned char sluice_dynamic_shared[];
  return sluice_dynamic_shared;
}

SLUICE_DEVICE uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Starts to copy 16 bytes, both ends aligned to 16, into shared memory: zeros where not `real`.
SLUICE_DEVICE void CopyAsync16(uint32_t to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(real ? 16 : 0)
               : "memory");
}

// Waits for the copies that this thread has started.
SLUICE_DEVICE void WaitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Makes a group of the copies that this thread has started since its last one; maybe of none.
SLUICE_DEVICE void EndCopyGroup() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all of this thread's groups but the last kLeft.
template <int kLeft>
SLUICE_DEVICE void WaitForCopyGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

#else

unsigned char* DynamicShared();
uint32_t SharedAddress(const void* shared);
void CopyAsync16(uint32_t to, const void* from, bool real);
void WaitForCopies();
void EndCopyGroup();
void WaitForCopyGroupsBut(int left);
template <int kLeft>
void WaitForCopyGroups() {
  WaitForCopyGroupsBut(kLeft);
}

#endif

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_ASYNC_COPY_CUH_
