#ifndef SLUICE_MODELS_KERNELS_CUDA_KERNEL_CHOICE_H_
#define SLUICE_MODELS_KERNELS_CUDA_KERNEL_CHOICE_H_

#include "models/kernels/kernels.h"

// Which of several kernels a shape takes, where that follows from the shape. Needs no CUDA: the
// kernels use it, and the record of launches (../record).
namespace sluice::cuda {

// bf16 multiplies with a rounded copy of fp32 weights,
inline bool CopiesWeight(const LinearShape& shape) { return shape.dtype != shape.weight_dtype; }
// and adds a rounded copy of the bias.
inline bool RoundsBias(const LinearShape& shape) {
  return shape.bias && shape.dtype == DType::kBFloat16;
}

// bf16 values in 16 bytes.
constexpr int64_t kAlignedOutputs = 8;
// The first outputs, the gradients of whose weights are one product: all of them, but where y is
// padded a multiple of kAlignedOutputs, if there are as many.
inline int64_t AlignedOutputs(const LinearShape& shape) {
  if (shape.padded_out == 0 || shape.out < kAlignedOutputs) return shape.out;
  return shape.out / kAlignedOutputs * kAlignedOutputs;
}

// Whether the input's gradient takes GELU' with its product. cuBLASLt's is good to 17 bits (seen on
// an H200), enough for bf16 only, and takes rows of multiples of 8 values.
inline bool FusesGelu(const LinearShape& shape) {
  return shape.input_activation == Activation::kGelu && shape.dtype == DType::kBFloat16 &&
         shape.in % 8 == 0;
}

// Whether attention runs on tensor cores, if all tensors are aligned to 16 bytes: rows of every head
// begin and end where 16 bytes do.
constexpr int64_t kTileAlignment = 16;  // bytes
inline bool FitsTiles(const AttentionShape& shape) {
  constexpr int64_t kWidest = 256;  // values
  const int64_t bits = shape.width | shape.q_stride | shape.kv_stride;
  return shape.dtype == DType::kBFloat16 && shape.width <= kWidest &&
         bits * SizeOf(shape.dtype) % kTileAlignment == 0;
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_KERNEL_CHOICE_H_
