#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHM_CHOICE_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHM_CHOICE_H_

#include <cublasLt.h>

#include <optional>

#include "absl/status/statusor.h"
#include "models/kernels/cuda/products/matmul_plan.h"
#include "models/kernels/cuda/products/matmul_shape.h"

namespace sluice::cuda {

// The algorithm of a shape on the plan's device, chosen at the first call, so that all products of
// that shape in the process add in the same order: the one that UseAlgorithms was given, the fastest
// one after MeasureAlgorithms, else the one that the library puts first. None where the library has
// none.
absl::StatusOr<std::optional<cublasLtMatmulAlgo_t>> ChooseAlgorithm(const MatmulShape& shape,
                                                                    const MatmulPlan& plan);

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHM_CHOICE_H_
