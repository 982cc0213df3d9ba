#include "models/kernels/cuda/table.h"

#include "models/kernels/cuda/products/cublaslt.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/cudnn/attention.h"

namespace sluice {
namespace {

constexpr Kernels Table(const char* name, decltype(Kernels::make_attention) make_attention) {
  Kernels table = cuda::TableWithoutProducts(name);
  table.make_linear = cuda::MakeLinear;
  table.make_attention = make_attention;
  return table;
}

}  // namespace

absl::Status PrepareCudaKernels(CudaAttention attention) {
  absl::Status status = cuda::LoadCublasLt().status();
  if (!status.ok() || attention == CudaAttention::kSluice) return status;
  return cudnn::PrepareAttention();
}

const Kernels& CudaKernels(CudaAttention attention) {
  static constexpr Kernels kOwn = Table("cuda", cuda::MakeAttention);
  static constexpr Kernels kCudnn = Table("cuda, attention by cuDNN", cudnn::MakeAttention);
  return attention == CudaAttention::kCudnn ? kCudnn : kOwn;
}

}  // namespace sluice
