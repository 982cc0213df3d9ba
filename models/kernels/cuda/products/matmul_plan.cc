#include "models/kernels/cuda/products/matmul_plan.h"

#include <utility>

namespace sluice::cuda {
namespace {

cudaDataType_t TypeOf(DType dtype) { return dtype == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F; }

cublasLtEpilogue_t EpilogueOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kDGelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kNone:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool HasBias(Epilogue epilogue) { return epilogue == Epilogue::kBias; }
bool HasAux(Epilogue epilogue) { return epilogue == Epilogue::kDGelu; }

// The layout of a row-major [rows, columns], which cuBLASLt stores by columns.
absl::StatusOr<cublasLtMatrixLayout_t> MakeLayout(const CublasLt& library, DType dtype,
                                                  int64_t rows, int64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  const cublasStatus_t status =
      library.layout_create(&layout, TypeOf(dtype), static_cast<uint64_t>(columns),
                            static_cast<uint64_t>(rows), stride == 0 ? columns : stride);
  if (status != CUBLAS_STATUS_SUCCESS) return library.ToStatus(status, "describing a matrix");
  return layout;
}

template <class Value>
cublasStatus_t Set(const CublasLt& library, cublasLtMatmulDesc_t description,
                   cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  return library.desc_set(description, attribute, &value, sizeof(value));
}

absl::Status Describe(const CublasLt& library, const MatmulShape& shape,
                      cublasLtMatmulDesc_t description) {
  const cublasOperation_t first = shape.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = shape.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue = EpilogueOf(shape.epilogue);
  // The library requires them when it looks for an algorithm; each Run sets the real ones.
  alignas(256) static constexpr char kPlace = 0;
  const void* const somewhere = &kPlace;
  cublasStatus_t status = Set(library, description, CUBLASLT_MATMUL_DESC_TRANSA, first);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    if (status == CUBLAS_STATUS_SUCCESS) status = Set(library, description, attribute, value);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSB, second);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (HasBias(shape.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
  if (HasAux(shape.epilogue)) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.n);
  }
  return library.ToStatus(status, "describing a product");
}

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MatmulPlan::Make(const MatmulShape& shape) {
  const absl::StatusOr<CublasLt>& library = LoadCublasLt();
  if (!library.ok()) return library.status();
  const absl::StatusOr<cublasLtHandle_t> handle = CublasLtHandle(*library);
  if (!handle.ok()) return handle.status();
  // fp32 stays fp32: TF32 would have to be asked for.
  cublasLtMatmulDesc_t description = nullptr;
  absl::Status status = library->ToStatus(
      library->desc_create(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  if (!status.ok()) return status;
  std::unique_ptr<MatmulPlan> plan(
      new MatmulPlan{.library = &*library,
                     .handle = *handle,
                     .description = {description, library->desc_destroy},
                     .first = {nullptr, library->layout_destroy},
                     .second = {nullptr, library->layout_destroy},
                     .result = {nullptr, library->layout_destroy},
                     .algorithm = std::nullopt});
  const auto lay_out = [&](Layout* layout, DType dtype, bool transposed, int64_t rows,
                           int64_t columns, int64_t stride) {
    if (transposed) std::swap(rows, columns);
    const auto made = MakeLayout(*library, dtype, rows, columns, stride);
    status.Update(made.status());
    if (made.ok()) layout->reset(*made);
  };
  lay_out(&plan->first, shape.in, shape.b_transposed, shape.k, shape.n, 0);
  lay_out(&plan->second, shape.in, shape.a_transposed, shape.m, shape.k, shape.a_stride);
  lay_out(&plan->result, shape.out, false, shape.m, shape.n, 0);
  status.Update(Describe(*library, shape, description));
  if (!status.ok()) return status;
  return plan;
}

absl::Status MatmulPlan::SetPointers(const MatmulTensors& tensors) const {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (tensors.bias != nullptr) {
    status = Set(*library, description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, tensors.bias);
  }
  if (tensors.aux != nullptr && status == CUBLAS_STATUS_SUCCESS) {
    status =
        Set(*library, description.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, tensors.aux);
  }
  return library->ToStatus(status, "pointing at tensors");
}

absl::Status MatmulPlan::Run(const cublasLtMatmulAlgo_t& with, bool adds,
                             const MatmulTensors& tensors, void* scratch,
                             cudaStream_t queue) const {
  if (absl::Status status = SetPointers(tensors); !status.ok()) return status;
  const float alpha = 1, beta = adds ? 1 : 0;
  return library->ToStatus(
      library->matmul(handle, description.get(), &alpha, tensors.b, first.get(), tensors.a,
                      second.get(), &beta, adds ? tensors.c : tensors.d, result.get(), tensors.d,
                      result.get(), &with, scratch, kMatmulScratch, queue),
      "a product");
}

}  // namespace sluice::cuda
