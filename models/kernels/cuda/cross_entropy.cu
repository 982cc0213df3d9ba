#include <cstddef>

#include "models/kernels/cuda/cross_entropy.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {

void CrossEntropy(Stream stream, const CrossEntropyShape& shape, void* logits,
                  const int32_t* targets, float grad_scale, bool accumulate, double* loss,
                  int64_t* correct, void* workspace) {
  double* const row_loss = static_cast<double*>(workspace);
  auto* const row_correct =
      reinterpret_cast<int32_t*>(static_cast<std::byte*>(workspace) + RowLossBytes(shape.rows));
  const int64_t touched = shape.rows + (grad_scale == 0 ? 0 : shape.padding);
  if (touched > 0) {
    Dispatch(shape.dtype, Aligned(logits), [&](auto aligned, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      const auto launch = [&]<auto kKernel>(BlockSize block) {
        Launch("cross_entropy", stream, static_cast<unsigned>(touched), block, kKernel, shape.rows,
               shape.classes, shape.row_width(), static_cast<T*>(logits), targets, grad_scale,
               shape.soft_cap, row_loss, row_correct);
      };
      if constexpr (aligned.value) {
        const int64_t row_bytes = EntropyRowBytes(shape.classes, sizeof(T));
        if (grad_scale != 0 && row_bytes <= kEntropyRowBytes) {
          constexpr auto kKernel = CrossEntropyKernel<true, true, T>;
          (void)Queue(stream);  // so that the stream's device is the current one
          AllowSharedMemory<kKernel>(kEntropyRowBytes);
          launch.template operator()<kKernel>({kEntropyThreads, row_bytes});
          return;
        }
      }
      launch.template operator()<CrossEntropyKernel<aligned.value, false, T>>(kEntropyThreads);
    });
  }
  if (loss == nullptr) return;
  Launch("cross_entropy", stream, 1, kTotalThreads, CrossEntropyTotalKernel, shape.rows, row_loss,
         row_correct, accumulate, loss, correct);
}

void SoftCap(Stream stream, DType dtype, int64_t n, float cap, void* x) {
  if (n == 0) return;
  Dispatch(dtype, Aligned(x), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("soft_cap", stream, Blocks(n, kCapValues), kCapThreads, SoftCapKernel<aligned.value, T>,
           n, cap, static_cast<T*>(x));
  });
}

}  // namespace sluice::cuda
