#ifndef SLUICE_MODELS_KERNELS_CPU_EMBEDDING_ROWS_H_
#define SLUICE_MODELS_KERNELS_CPU_EMBEDDING_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace sluice::cpu {

// The rows of a micro-batch, and where in the tables of an embedding their values are. `starts` as
// in Kernels.
struct EmbeddingRows {
  const int32_t* tokens = nullptr;
  const int32_t* starts = nullptr;
  size_t rows = 0, seq = 0, dim = 0;

  size_t Token(size_t row) const { return static_cast<size_t>(tokens[row]); }
  size_t Position(size_t row) const {
    return row % seq - (starts == nullptr ? 0 : static_cast<size_t>(starts[row]));
  }
};

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_EMBEDDING_ROWS_H_
