#ifndef SLUICE_TESTS_MODELS_TWINS_REFERENCE_VALUES_H_
#define SLUICE_TESTS_MODELS_TWINS_REFERENCE_VALUES_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "models/spec/dtype.h"

// How ReferenceKernels() read and write tensors.
namespace sluice::reference {

// Element i of a kFloat32 or kBFloat16 tensor.
inline double Get(DType dtype, const void* x, int64_t i) {
  if (dtype == DType::kFloat32) return static_cast<const float*>(x)[i];
  return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(x)[i]} << 16);
}
void Set(DType dtype, void* x, int64_t i, double value);  // round to nearest, ties to even

// Fills `bytes` with a pattern that reads as NaN in every floating type.
void Poison(void* data, size_t bytes);

}  // namespace sluice::reference

#endif  // SLUICE_TESTS_MODELS_TWINS_REFERENCE_VALUES_H_
