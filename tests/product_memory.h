#ifndef SLUICE_TESTS_PRODUCT_MEMORY_H_
#define SLUICE_TESTS_PRODUCT_MEMORY_H_

#include <oneapi/dnnl/dnnl.hpp>

#include "models/kernels/portable_kernels.h"

namespace sluice {

// Whether products here work in the memory that they are given. Without AVX-512, and in bf16 where
// the processor has none, oneDNN's GEMM multiplies: it allocates for each call, and frees, what it
// copies of its operands.
inline bool MultipliesInGivenMemory(DType dtype) {
  if (dtype == DType::kBFloat16) return CpuMultipliesBFloat16();
  const auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx512) == avx512;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PRODUCT_MEMORY_H_
