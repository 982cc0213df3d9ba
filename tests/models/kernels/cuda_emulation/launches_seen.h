#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_LAUNCHES_SEEN_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_LAUNCHES_SEEN_H_

namespace sluice::emulation {

// How many kernels, fills and copies this program has launched (emulated_under_test.cc).
int LaunchesSeen();

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_LAUNCHES_SEEN_H_
