#include "models/kernels/cuda/products/cublaslt.h"

#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "models/device/cuda_error.h"
#include "models/device/cuda_libraries.h"

namespace sluice::cuda {
namespace {

// The library makes the descriptors itself, so the library of the release before can be used too.
constexpr absl::string_view kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

absl::StatusOr<CublasLt> Load() {
  const absl::StatusOr<CudaLibrary> library = CudaLibrary::Open("cuBLASLt", kFiles);
  if (!library.ok()) return library.status();
  CublasLt functions;
  absl::Status status;
  const auto find = [&](const char* symbol, auto* function) {
    status.Update(library->Find(symbol, function));
  };
  find("cublasLtCreate", &functions.create);
  find("cublasLtGetVersion", &functions.version);
  find("cublasLtGetStatusString", &functions.status_string);
  find("cublasLtMatmul", &functions.matmul);
  find("cublasLtMatmulAlgoGetHeuristic", &functions.heuristic);
  find("cublasLtMatmulAlgoCheck", &functions.algo_check);
  find("cublasLtMatmulAlgoConfigGetAttribute", &functions.algo_get);
  find("cublasLtMatmulDescCreate", &functions.desc_create);
  find("cublasLtMatmulDescDestroy", &functions.desc_destroy);
  find("cublasLtMatmulDescSetAttribute", &functions.desc_set);
  find("cublasLtMatrixLayoutCreate", &functions.layout_create);
  find("cublasLtMatrixLayoutDestroy", &functions.layout_destroy);
  find("cublasLtMatmulPreferenceCreate", &functions.preference_create);
  find("cublasLtMatmulPreferenceDestroy", &functions.preference_destroy);
  find("cublasLtMatmulPreferenceSetAttribute", &functions.preference_set);
  if (!status.ok()) return status;
  functions.path = library->path();
  return functions;
}

}  // namespace

absl::Status CublasLt::ToStatus(cublasStatus_t status, absl::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat("cuBLASLt, ", what, ": ", status_string(status));
  return status == CUBLAS_STATUS_ALLOC_FAILED ? absl::ResourceExhaustedError(text)
                                              : absl::InternalError(text);
}

const absl::StatusOr<CublasLt>& LoadCublasLt() {
  static const auto* const library = new absl::StatusOr<CublasLt>(Load());
  return *library;
}

absl::StatusOr<cublasLtHandle_t> CublasLtHandle(const CublasLt& library) {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, cublasLtHandle_t>;  // live as long as the process
  int ordinal = 0;
  absl::Status status = CudaStatus(cudaGetDevice(&ordinal), "asking for the current GPU");
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex);
  if (const auto found = handles->find(ordinal); found != handles->end()) return found->second;
  cublasLtHandle_t handle = nullptr;
  status = library.ToStatus(library.create(&handle), "opening");
  if (!status.ok()) return status;
  (*handles)[ordinal] = handle;
  return handle;
}

}  // namespace sluice::cuda
