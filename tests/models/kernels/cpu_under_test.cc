#include <limits>

#include "tests/models/kernels/kernels_under_test.h"

namespace sluice {

const Kernels& KernelsUnderTest() { return CpuKernels(); }

int64_t RowWindow() { return std::numeric_limits<int64_t>::max(); }

}  // namespace sluice
