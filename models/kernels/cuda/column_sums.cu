#include <algorithm>

#include "models/kernels/cuda/column_sums.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {

void ColumnSums(Stream stream, DType dtype, int64_t rows, int64_t columns, const void* x,
                float* sums, bool accumulate, void* workspace) {
  float* const parts = static_cast<float*>(workspace);
  const int64_t chunk_rows = ColumnChunkRows(rows, columns);
  const int64_t chunks = CeilDiv(rows, chunk_rows);
  if (rows > 0 && columns > 0) {
    const auto grid = static_cast<unsigned>(chunks * CeilDiv(columns, kWarpPart));
    Dispatch(dtype, columns % kPart == 0 && Aligned(x), [&](auto aligned, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      Launch("column sums", stream, grid, kColumnThreads, ColumnPartsKernel<aligned.value, T>, rows,
             columns, chunk_rows, static_cast<const T*>(x), parts);
    });
  }
  AddParts(stream, chunks, columns, parts, sums, accumulate);
}

void AddParts(Stream stream, int64_t count, int64_t columns, const float* parts, float* sums,
              bool accumulate) {
  if (columns == 0) return;
  const auto warps = static_cast<unsigned>(std::clamp<int64_t>(count, 1, kAddWarps));
  Launch("sums of parts", stream, Blocks(columns, kWarp), warps * kWarp, AddPartsKernel, count,
         columns, parts, sums, accumulate);
}

}  // namespace sluice::cuda
