#ifndef SLUICE_MODELS_KERNELS_RECORD_SHARED_LAUNCHES_H_
#define SLUICE_MODELS_KERNELS_RECORD_SHARED_LAUNCHES_H_

#include <cstdint>

#include "models/kernels/kernels.h"
#include "models/kernels/record/kernel_launch.h"
#include "models/spec/dtype.h"

// What the functions of RecordedKernels() share.
namespace sluice::record {

constexpr int64_t kFloat = SizeOf(DType::kFloat32);

// A launch that memory bounds.
void Moves(KernelKind kind, int64_t bytes);

// Sums of columns, and of parts of them, as models/kernels/cuda/column_sums.cu launches them.
void ColumnSums(DType dtype, int64_t rows, int64_t columns, bool accumulate);
void AddParts(int64_t count, int64_t columns, bool accumulate);

void ActivationForward(DType dtype, Activation activation, int64_t n);
void ActivationBackward(DType dtype, Activation activation, int64_t n, bool in_place);
void RoundToBFloat16(int64_t n);

}  // namespace sluice::record

#endif  // SLUICE_MODELS_KERNELS_RECORD_SHARED_LAUNCHES_H_
