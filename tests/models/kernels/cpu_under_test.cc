#include "tests/models/kernels/kernels_under_test.h"

namespace sluice {

const Kernels& KernelsUnderTest() { return CpuKernels(); }

}  // namespace sluice
