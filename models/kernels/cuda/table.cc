#include "models/kernels/cuda/table.h"

#include "models/kernels/cuda/cublaslt.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {

absl::Status PrepareCudaKernels() { return cuda::LoadCublasLt().status(); }

const Kernels& CudaKernels() {
  static constexpr Kernels kTable = [] {
    Kernels table = cuda::TableWithoutProducts("cuda");
    table.make_linear = cuda::MakeLinear;
    table.make_attention = cuda::MakeAttention;
    return table;
  }();
  return kTable;
}

}  // namespace sluice
