#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHM_RACE_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHM_RACE_H_

#include <cublasLt.h>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/kernels/cuda/products/matmul_plan.h"
#include "models/kernels/cuda/products/matmul_shape.h"

namespace sluice::cuda {

struct RaceResult {
  cublasLtMatmulAlgo_t algorithm = {};
  double seconds = 0;        // of one product by it, the least of several rounds
  double first_seconds = 0;  // of one by the first algorithm
};

// The fastest of some algorithms, at least one, for a product of `shape`, on a stream and memory of
// its own of the current device. ResourceExhausted where there is too little memory; Internal where
// none of them runs.
absl::StatusOr<RaceResult> FastestOf(absl::Span<const cublasLtMatmulAlgo_t> algorithms,
                                     const MatmulShape& shape, const MatmulPlan& plan);

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHM_RACE_H_
