#ifndef SLUICE_TESTS_MODELS_REFERENCE_KERNELS_H_
#define SLUICE_TESTS_MODELS_REFERENCE_KERNELS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "models/kernels/kernels.h"

namespace sluice {

// The whole table in plain C++, as the formulas read: one value at a time, sums in double, rounded
// once on storing. The twin that fast kernels, and layers over them, are compared with. It keeps to
// the contract's letter to catch callers that do not: weights are used only in their packed form,
// and every work area is overwritten with NaN on entry.
const Kernels& ReferenceKernels();

namespace reference {

// Element i of a kFloat32 or kBFloat16 tensor.
inline double Get(DType dtype, const void* x, int64_t i) {
  if (dtype == DType::kFloat32) return static_cast<const float*>(x)[i];
  return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(x)[i]} << 16);
}
void Set(DType dtype, void* x, int64_t i, double value);  // round to nearest, ties to even

double Activate(Activation activation, double x);
double ActivateGradient(Activation activation, double x);

// Fills `bytes` with a pattern that reads as NaN in every floating type.
void Poison(void* data, size_t bytes);

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape);
absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape);

}  // namespace reference
}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_REFERENCE_KERNELS_H_
