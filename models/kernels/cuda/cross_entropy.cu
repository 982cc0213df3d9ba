#include <cstddef>

#include "models/kernels/cuda/cross_entropy.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

// The work area: each row's loss, then whether it is right.
size_t LossBytes(int64_t rows) { return WorkBytes(rows * static_cast<int64_t>(sizeof(double))); }

}  // namespace

size_t CrossEntropyWorkspace(int64_t rows, int64_t) {
  return LossBytes(rows) + WorkBytes(rows * static_cast<int64_t>(sizeof(int32_t)));
}

void CrossEntropy(Stream stream, DType dtype, int64_t rows, int64_t classes, void* logits,
                  const int32_t* targets, float grad_scale, double* loss, int64_t* correct,
                  void* workspace) {
  double* const row_loss = static_cast<double*>(workspace);
  auto* const row_correct =
      reinterpret_cast<int32_t*>(static_cast<std::byte*>(workspace) + LossBytes(rows));
  if (rows > 0) {
    Dispatch(dtype, Aligned(logits), [&](auto aligned, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      Launch("cross_entropy", stream, static_cast<unsigned>(rows), kEntropyThreads,
             CrossEntropyKernel<aligned.value, T>, classes, static_cast<T*>(logits), targets,
             grad_scale, row_loss, row_correct);
    });
  }
  Launch("cross_entropy", stream, 1, kTotalThreads, CrossEntropyTotalKernel, rows, row_loss,
         row_correct, loss, correct);
}

}  // namespace sluice::cuda
