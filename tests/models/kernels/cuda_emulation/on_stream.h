#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_ON_STREAM_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_ON_STREAM_H_

#include <cstdint>
#include <functional>

namespace sluice::emulation {

// Does `work`, a kernel's or a copy's, when the stream (a cudaStream_t) gets there. A program that
// launches emulated kernels defines it: at_once.cc, or the streams of tests/emulated_gpu.
void OnStream(void* stream, const std::function<void()>& work);

extern uint64_t launch_seed;  // of the orders that CUDA leaves open

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_ON_STREAM_H_
