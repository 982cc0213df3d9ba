#ifndef SLUICE_TESTS_MODELS_TWINS_REFERENCE_KERNELS_H_
#define SLUICE_TESTS_MODELS_TWINS_REFERENCE_KERNELS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "models/kernels/kernels.h"
#include "tests/models/twins/reference_values.h"

namespace sluice {

// The whole table in plain C++, as the formulas read: one value at a time, sums in double, rounded
// once on storing. The twin that fast kernels, and layers over them, are compared with. It keeps to
// the contract's letter to catch callers that do not: weights are used only in their packed form,
// and every work area is overwritten with NaN on entry.
const Kernels& ReferenceKernels();

namespace reference {

double Activate(Activation activation, double x);
double ActivateGradient(Activation activation, double x);

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape);
absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape);

}  // namespace reference
}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_TWINS_REFERENCE_KERNELS_H_
