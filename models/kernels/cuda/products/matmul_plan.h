#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_PLAN_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_PLAN_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/kernels/cuda/products/cublaslt.h"
#include "models/kernels/cuda/products/matmul_shape.h"

namespace sluice::cuda {

// cuBLASLt's view of a product. It stores by columns, so a row-major [m, n] is a [n, m] for it.
// Therefore it is asked for d^T = b^T * a^T: its first matrix is our b, its second our a, and its
// number of rows is our n; a matrix that we call transposed is then one that it must transpose too.
// A bias runs along its rows, which are our columns.
struct MatmulPlan {
  using Layout =
      std::unique_ptr<cublasLtMatrixLayoutOpaque_t, decltype(::cublasLtMatrixLayoutDestroy)*>;
  using Description =
      std::unique_ptr<cublasLtMatmulDescOpaque_t, decltype(::cublasLtMatmulDescDestroy)*>;

  // Without an algorithm, which is chosen for a plan.
  static absl::StatusOr<std::unique_ptr<MatmulPlan>> Make(const MatmulShape& shape);
  // Queues the product by this algorithm; `adds` and the tensors as in MatmulShape. `scratch` has
  // kMatmulScratch bytes at a multiple of kScratchAlignment. One thread at a time.
  absl::Status Run(const cublasLtMatmulAlgo_t& with, bool adds, const MatmulTensors& tensors,
                   void* scratch, cudaStream_t queue) const;

  const CublasLt* library;
  cublasLtHandle_t handle;
  Description description;
  Layout first, second, result;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: not chosen yet, or the library has none

 private:
  absl::Status SetPointers(const MatmulTensors& tensors) const;
};

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_PLAN_H_
