#ifndef SLUICE_MODELS_KERNELS_CPU_PORTABLE_LINEAR_H_
#define SLUICE_MODELS_KERNELS_CPU_PORTABLE_LINEAR_H_

#include <memory>

#include "models/kernels/kernels.h"

namespace sluice::cpu {

// Products that every processor computes with the same bits, whatever the number of threads. The
// sizes are BytesOf the shape (linear_bytes.h), and oneDNN is first used when a product runs.
std::unique_ptr<Linear> MakePortableLinear(const LinearShape& shape);

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_PORTABLE_LINEAR_H_
