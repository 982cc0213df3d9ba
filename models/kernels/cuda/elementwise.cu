#include <algorithm>

#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/tensor_lists.h"

namespace sluice::cuda {

namespace {

template <class Tensor, class Sum>
void PutFlat(const Tensor& tensor, int t, FlatList<Sum>* list) {
  list->n[t] = tensor.n;
  list->values[t] = tensor.values;
  list->sums[t] = tensor.sums;
}

}  // namespace

void Accumulate(Stream stream, absl::Span<const AddedTensor> tensors, bool add) {
  const auto blocks_of = [](const AddedTensor& tensor) { return Blocks(tensor.n, kAddedValues); };
  const auto put = [](const AddedTensor& tensor, int t, FlatList<float>* list) {
    PutFlat(tensor, t, list);
    return Aligned(tensor.values, tensor.sums);
  };
  ForLists<FlatList<float>>(tensors, blocks_of, put,
                            [&](const FlatList<float>& list, unsigned blocks, bool aligned) {
                              Launch("accumulate", stream, blocks, kFlatThreads,
                                     aligned ? AddKernel<true> : AddKernel<false>, list, add);
                            });
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
  const auto blocks_of = [](const SquaredTensor& tensor) {
    return Blocks(tensor.n, kSquaresBlock * kSquaresWarps);
  };
  const auto put = [](const SquaredTensor& tensor, int t, FlatList<double>* list) {
    PutFlat(tensor, t, list);
    return Aligned(tensor.values);
  };
  ForLists<FlatList<double>>(
      tensors, blocks_of, put, [&](const FlatList<double>& list, unsigned blocks, bool aligned) {
        Launch("block_squares", stream, blocks, kSquaresWarps * kWarp,
               aligned ? BlockSquaresKernel<true> : BlockSquaresKernel<false>, list, kSquaresBlock);
      });
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
