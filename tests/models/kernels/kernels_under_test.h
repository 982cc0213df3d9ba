#ifndef SLUICE_TESTS_MODELS_KERNELS_KERNELS_UNDER_TEST_H_
#define SLUICE_TESTS_MODELS_KERNELS_KERNELS_UNDER_TEST_H_

#include "models/kernels/kernels.h"

namespace sluice {

// The tests of this folder are linked with the CPU's kernels, with the bodies of CUDA's on the CPU
// (cuda_emulation/), and with CUDA's on a GPU (cuda/). Work is done when a call returns, on any.
const Kernels& KernelsUnderTest();

// Of their embedding_backward: the rows that are added together, as twin::AddRows has it.
int64_t RowWindow();

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_KERNELS_KERNELS_UNDER_TEST_H_
