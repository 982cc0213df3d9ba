#ifndef SLUICE_MODELS_KERNELS_CPU_WIDEN_H_
#define SLUICE_MODELS_KERNELS_CPU_WIDEN_H_

#include <cstddef>
#include <cstdint>

#include "models/spec/dtype.h"

namespace sluice::cpu {

// A part of a matrix: its first value, and the distance between rows in elements.
template <class Void>
struct Tile {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  Void* data = nullptr;
};

// to[rows, columns], dense, = the values of `from`.
void Widen(DType dtype, const Tile<const void>& from, float* to);

// to = the dense sums[rows, columns] (+ bias[columns]) (+ residual, with the layout of `to`),
// rounded once. Null: no such term.
void Narrow(DType dtype, const float* sums, const float* bias, const void* residual,
            const Tile<void>& to);

// The values of `from`, rounded, as oneDNN's products of bf16 take their right factors (its format
// BA16a64b2a): blocks of 32 rows and 64 columns, those below each other first, of 16 pairs of rows
// with both values of a column side by side; padded with zeros. `transposed`: `from` has columns as
// rows.
void PackPairs(const Tile<const float>& from, bool transposed, void* to);

// to[n] = the values of `from` rounded to bf16, as fp32.
void RoundToBFloat16Values(size_t n, const float* from, float* to);

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_WIDEN_H_
