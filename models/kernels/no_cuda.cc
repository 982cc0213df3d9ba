#include <cstdlib>

#include "models/kernels/cuda/products/algorithms.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {

namespace {

absl::Status NoCuda() {
  return absl::FailedPreconditionError(
      "this build has no CUDA; where there is nvcc, configure with -DSLUICE_CUDA=ON");
}

}  // namespace

absl::Status PrepareCudaKernels(CudaAttention) { return NoCuda(); }

absl::Status UseAlgorithms(const ProductAlgorithms&, absl::string_view) { return NoCuda(); }
void MeasureAlgorithms() {}
absl::StatusOr<ProductAlgorithms> MeasuredAlgorithms(absl::string_view) { return NoCuda(); }

const Kernels& CudaKernels(CudaAttention) { std::abort(); }  // the contract: not to be called

}  // namespace sluice
