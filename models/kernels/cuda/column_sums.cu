#include <algorithm>
#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "models/kernels/cuda/column_sums.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/tensor_lists.h"

namespace sluice::cuda {

namespace {

struct ChunkedColumns {
  SummedColumns tensor;
  float* parts;  // [chunks, columns]
};

}  // namespace

void ColumnSums(Stream stream, DType dtype, absl::Span<const SummedColumns> tensors,
                bool accumulate, void* workspace) {
  absl::InlinedVector<ChunkedColumns, kSummedTensors> chunked;
  absl::InlinedVector<SummedParts, kSummedTensors> parts;
  auto* next = static_cast<std::byte*>(workspace);
  for (const SummedColumns& tensor : tensors) {
    auto* const to = reinterpret_cast<float*>(next);
    chunked.push_back({tensor, to});
    parts.push_back({ColumnChunks(tensor), tensor.columns, to, tensor.sums});
    next += ColumnPartsBytes(tensor);
  }
  const auto blocks_of = [](const ChunkedColumns& of) {
    const int64_t across = CeilDiv(of.tensor.columns, kWarpPart);
    return static_cast<unsigned>(ColumnChunks(of.tensor) * across);
  };
  const auto put = [](const ChunkedColumns& of, int t, ColumnsList* list) {
    list->x[t] = of.tensor.x;
    list->parts[t] = of.parts;
    list->rows[t] = of.tensor.rows;
    list->columns[t] = of.tensor.columns;
    list->chunk_rows[t] = ColumnChunkRows(of.tensor.rows, of.tensor.columns);
    return of.tensor.columns % kPart == 0 && Aligned(of.tensor.x);
  };
  const auto launch = [&](const ColumnsList& list, unsigned blocks, bool is_aligned) {
    Dispatch(dtype, is_aligned, [&](auto aligned, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      Launch("column sums", stream, blocks, kColumnThreads, ColumnPartsKernel<aligned.value, T>,
             list);
    });
  };
  ForLists<ColumnsList>(absl::MakeConstSpan(chunked), blocks_of, put, launch);
  AddParts(stream, parts, accumulate);
}

void AddParts(Stream stream, absl::Span<const SummedParts> tensors, bool accumulate) {
  const auto blocks_of = [](const SummedParts& tensor) { return Blocks(tensor.columns, kWarp); };
  const auto put = [](const SummedParts& tensor, int t, PartsList* list) {
    list->parts[t] = tensor.parts;
    list->sums[t] = tensor.sums;
    list->parts_of[t] = tensor.count;
    list->columns[t] = tensor.columns;
    return true;
  };
  ForLists<PartsList>(tensors, blocks_of, put, [&](const PartsList& list, unsigned blocks, bool) {
    const int64_t most = *std::max_element(list.parts_of, list.parts_of + list.count);
    const auto warps = static_cast<int>(std::clamp<int64_t>(most, 1, kAddWarps));
    Launch("sums of parts", stream, blocks, warps * kWarp, AddPartsKernel, list, accumulate);
  });
}

}  // namespace sluice::cuda
