#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_CUBLASLT_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_CUBLASLT_H_

#include <cublasLt.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::cuda {

// cuBLASLt's functions, from the library that is found at run time.
struct CublasLt {
  decltype(::cublasLtCreate)* create = nullptr;
  decltype(::cublasLtGetVersion)* version = nullptr;
  decltype(::cublasLtGetStatusString)* status_string = nullptr;
  decltype(::cublasLtMatmul)* matmul = nullptr;
  decltype(::cublasLtMatmulAlgoGetHeuristic)* heuristic = nullptr;
  decltype(::cublasLtMatmulAlgoCheck)* algo_check = nullptr;
  decltype(::cublasLtMatmulAlgoConfigGetAttribute)* algo_get = nullptr;
  decltype(::cublasLtMatmulDescCreate)* desc_create = nullptr;
  decltype(::cublasLtMatmulDescDestroy)* desc_destroy = nullptr;
  decltype(::cublasLtMatmulDescSetAttribute)* desc_set = nullptr;
  decltype(::cublasLtMatrixLayoutCreate)* layout_create = nullptr;
  decltype(::cublasLtMatrixLayoutDestroy)* layout_destroy = nullptr;
  decltype(::cublasLtMatmulPreferenceCreate)* preference_create = nullptr;
  decltype(::cublasLtMatmulPreferenceDestroy)* preference_destroy = nullptr;
  decltype(::cublasLtMatmulPreferenceSetAttribute)* preference_set = nullptr;
  std::string path;

  absl::Status ToStatus(cublasStatus_t status, absl::string_view what) const;
};

// Loaded once, at the first call; NotFound says where it was looked for.
const absl::StatusOr<CublasLt>& LoadCublasLt();

// The current device's handle, made once for all threads.
absl::StatusOr<cublasLtHandle_t> CublasLtHandle(const CublasLt& library);

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_CUBLASLT_H_
