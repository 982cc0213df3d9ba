#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_SHAPE_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_SHAPE_H_

#include <cstddef>
#include <cstdint>

#include "models/spec/dtype.h"

namespace sluice::cuda {

// What is done to the product before it is written. `aux` is the value before an activation.
enum class Epilogue : uint8_t {
  kNone,
  kBias,  // + bias[n]
  kDGelu  // times GELU'(aux)
};

// d[m, n] = a[m, k] * b[k, n] (+ c[m, n]), all row-major, adding in fp32.
struct MatmulShape {
  int64_t m = 0, k = 0, n = 0;
  DType in = DType::kFloat32;   // of a and b
  DType out = DType::kFloat32;  // of c, d, bias and aux
  int64_t a_stride = 0;         // elements from a stored row of a to the next; 0: a row's length
  bool a_transposed = false;    // a is stored [k, m]
  bool b_transposed = false;    // b is stored [n, k]
  bool adds = false;            // c is added; it may be d
  Epilogue epilogue = Epilogue::kNone;

  // Elements from the first of a to behind its last row.
  int64_t a_elements() const { return a_stride == 0 ? m * k : (a_transposed ? k : m) * a_stride; }

  friend auto operator<=>(const MatmulShape&,
                          const MatmulShape&) = default;  // NOLINT(modernize-use-nullptr)
};

struct MatmulTensors {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;
  void* aux = nullptr;
};

// Without the tensors that a product of this shape does not have.
inline MatmulTensors OnlyThoseOf(const MatmulShape& shape, MatmulTensors tensors) {
  if (!shape.adds) tensors.c = nullptr;
  if (shape.epilogue != Epilogue::kBias) tensors.bias = nullptr;
  if (shape.epilogue != Epilogue::kDGelu) tensors.aux = nullptr;
  return tensors;
}

// The bytes of a work area that any algorithm may use, whatever the product's shape, so that memory
// can be predicted where there is no GPU. NVIDIA recommends this size for Hopper.
inline constexpr size_t kMatmulScratch = size_t{32} << 20;
// The size of the work area: algorithms need it at a multiple of 256 bytes, the caller aligns it to
// 64.
inline constexpr size_t kScratchAlignment = 256;
inline constexpr size_t kMatmulWorkspace = kMatmulScratch + kScratchAlignment - 64;

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_SHAPE_H_
