#include <algorithm>

#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {

void Accumulate(Stream stream, int64_t n, const float* x, float* y, bool add) {
  if (n == 0) return;
  if (!add) {
    Copy(stream, y, x, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  const unsigned blocks = Blocks(n, kFlatThreads * kFloatPart);
  Launch("accumulate", stream, blocks, kFlatThreads,
         Aligned(x, y) ? AddKernel<true> : AddKernel<false>, n, x, y);
}

void Dropout(Stream stream, DType dtype, int64_t n, const DropoutMask& mask, const void* x,
             const void* added, void* y) {
  if (n == 0) return;
  Dispatch(dtype, Aligned(x, added, y), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("dropout", stream, Blocks(n, kFlatThreads * kPart), kFlatThreads,
           DropoutKernel<aligned.value, T>, n, mask, static_cast<const T*>(x),
           static_cast<const T*>(added), static_cast<T*>(y));
  });
}

void Scale(Stream stream, DType dtype, int64_t n, float factor, void* x) {
  if (n == 0) return;
  Dispatch(dtype, Aligned(x), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("scale", stream, Blocks(n, kFlatThreads * kPart), kFlatThreads,
           ScaleKernel<aligned.value, T>, n, factor, static_cast<T*>(x));
  });
}

void ToBFloat16(Stream stream, int64_t n, const float* from, void* to) {
  if (n == 0) return;
  const unsigned blocks = Blocks(n, kFlatThreads * kPart);
  Launch("rounding to bf16", stream, blocks, kFlatThreads,
         Aligned(from, to) ? ToBFloat16Kernel<true> : ToBFloat16Kernel<false>, n, from,
         static_cast<BFloat16*>(to));
}

void BlockSquares(Stream stream, absl::Span<const SquaredTensor> tensors) {
  SquaredList list;
  list.count = 0;
  unsigned blocks = 0;
  bool aligned = true;
  const auto launch = [&] {
    if (list.count == 0) return;
    Launch("block_squares", stream, blocks, kSquaresWarps * kWarp,
           aligned ? BlockSquaresKernel<true> : BlockSquaresKernel<false>, list, kSquaresBlock);
    list.count = 0;
    blocks = 0;
    aligned = true;
  };
  for (const SquaredTensor& tensor : tensors) {
    if (tensor.n == 0) continue;
    if (list.count == kSquaredTensors) launch();
    const int t = list.count++;
    list.values[t] = tensor.values;
    list.sums[t] = tensor.sums;
    list.n[t] = tensor.n;
    list.first_block[t] = blocks;
    blocks += Blocks(tensor.n, kSquaresBlock * kSquaresWarps);
    aligned = aligned && Aligned(tensor.values);
  }
  launch();
}

void AddInGroups(Stream stream, absl::Span<const GroupedSum> rows) {
  for (size_t next = 0; next < rows.size(); next += kListedRows) {
    const absl::Span<const GroupedSum> some = rows.subspan(next, kListedRows);
    RowList list = {};
    std::copy(some.begin(), some.end(), list.rows);
    Launch("add_in_groups", stream, static_cast<unsigned>(some.size()), kRowThreads,
           AddInGroupsKernel, list, kSumGroup);
  }
}

void AllFinite(Stream stream, DType dtype, int64_t n, const void* x, bool* finite) {
  Launch("all_finite", stream, 1, kWarp, SetKernel, finite);
  if (n > 0) {
    Dispatch(dtype, Aligned(x), [&](auto aligned, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      Launch("all_finite", stream, Blocks(n, kFlatThreads * kPart), kFlatThreads,
             AllFiniteKernel<aligned.value, T>, n, static_cast<const T*>(x), finite);
    });
  }
}

void Copy(Stream stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  (void)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, Queue(stream));
  NoteLastCudaError("copy");
}

}  // namespace sluice::cuda
