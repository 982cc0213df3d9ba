#ifndef SLUICE_MODELS_KERNELS_CUDA_DISPATCH_H_
#define SLUICE_MODELS_KERNELS_CUDA_DISPATCH_H_

#include <cuda_bf16.h>

#include <type_traits>

#include "models/spec/dtype.h"

namespace sluice::cuda {

// Calls body(std::bool_constant<aligned>, null pointer of the element type).
template <class Body>
void Dispatch(DType dtype, bool aligned, const Body& body) {
  const auto with_type = [&](auto* type) {
    aligned ? body(std::true_type(), type) : body(std::false_type(), type);
  };
  dtype == DType::kBFloat16 ? with_type(static_cast<__nv_bfloat16*>(nullptr))
                            : with_type(static_cast<float*>(nullptr));
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_DISPATCH_H_
