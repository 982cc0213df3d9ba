#ifndef SLUICE_TESTS_EMULATED_GPU_GPUS_H_
#define SLUICE_TESTS_EMULATED_GPU_GPUS_H_

#include <cstdint>

// GPUs made of the CPU, behind CUDA's runtime API (runtime.cc) and cuBLASLt's (cublaslt.cc), for
// everything that this project does with a GPU but the instructions: kernels run by the bodies of
// models/kernels/cuda_emulation. Streams are threads that do their work late, and after random
// pauses (tests/models/fake_device.h). What a real runtime would refuse or leave undefined (a
// launch on another GPU's stream, memory that was freed, a stream that is gone) is an error or ends
// the program; memory is full of NaN when it is allocated.
namespace sluice::emulation {

inline constexpr int kGpus = 2;

// Bytes that are allocated now.
int64_t AllocatedBytes(int gpu);
// Graphs launched since the program began.
int64_t LaunchedGraphs();

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_EMULATED_GPU_GPUS_H_
