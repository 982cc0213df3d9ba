#ifndef SLUICE_MODELS_KERNELS_PORTABLE_KERNELS_H_
#define SLUICE_MODELS_KERNELS_PORTABLE_KERNELS_H_

#include <string>

#include "models/kernels/kernels.h"

namespace sluice {

// Whether this processor multiplies bf16 faster than fp32: by AMX, or by AVX-512 BF16 where that is
// fast. The variable DNNL_MAX_CPU_ISA of the environment can forbid either. A processor that does
// neither multiplies bf16 in CpuKernels() as in PortableCpuKernels(), with other bits.
bool CpuMultipliesBFloat16();

// The instruction sets that CpuKernels() uses here, for people: "AVX-512 with bf16" in oneDNN's
// products, which DNNL_MAX_CPU_ISA limits; "AVX-512" in all other kernels, which nothing limits.
// Other ones give other bits, since they add in another order.
std::string ProductInstructions();
std::string VectorInstructions();

// CpuKernels(), but with products that every processor can compute: operands are converted to fp32,
// tile by tile, and results rounded. Packed weights and work areas follow from the shape alone,
// whatever the processor, so memory can be predicted with them where a run on another machine is
// planned. CpuKernels() needs the same memory, or more where oneDNN asks for more.
const Kernels& PortableCpuKernels(MasterWeights master_weights = MasterWeights::kWhole);

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_PORTABLE_KERNELS_H_
