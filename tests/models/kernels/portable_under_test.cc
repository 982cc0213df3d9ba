#include "models/kernels/portable_kernels.h"
#include "tests/models/kernels/kernels_under_test.h"

namespace sluice {

const Kernels& KernelsUnderTest() { return PortableCpuKernels(); }

}  // namespace sluice
