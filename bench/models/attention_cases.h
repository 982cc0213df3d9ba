#ifndef SLUICE_BENCH_MODELS_ATTENTION_CASES_H_
#define SLUICE_BENCH_MODELS_ATTENTION_CASES_H_

#include <cstdint>

#include "models/kernels/kernels.h"

namespace sluice {

// The shapes of attention that are measured on a GPU, by the names that the rows of results have.
struct AttentionCase {
  const char* name;
  AttentionShape shape;
  int64_t document = 0;  // tokens of each document of a sequence; 0: a sequence is one
};

// Queries, keys and values side by side.
constexpr AttentionShape SideBySide(int64_t batch, int64_t seq, int64_t heads, int64_t kv_heads,
                                    int64_t width, int64_t window = 0,
                                    DType dtype = DType::kBFloat16) {
  const int64_t stride = (heads + 2 * kv_heads) * width;
  return {.batch = batch,
          .seq = seq,
          .heads = heads,
          .kv_heads = kv_heads,
          .width = width,
          .q_stride = stride,
          .kv_stride = stride,
          .window = window,
          .dtype = dtype};
}

inline constexpr AttentionCase kAttentionCases[] = {
    {"GPT-2 124M", SideBySide(16, 1024, 12, 12, 64)},
    {"GPT-2 1.5B", SideBySide(8, 1024, 25, 25, 64)},
    {"heads of 128", SideBySide(8, 1024, 16, 16, 128)},
    {"8192 long", SideBySide(1, 8192, 32, 32, 64)},
    {"8192 long, heads of 128", SideBySide(1, 8192, 16, 16, 128)},
    {"Qwen3-0.6B", SideBySide(8, 2048, 16, 8, 128)},
    {"8192 long, window of 1024", SideBySide(1, 8192, 16, 8, 128, 1024)},
    {"heads of 256", SideBySide(4, 2048, 4, 1, 256)},
    {"8192 long, documents of 512", SideBySide(1, 8192, 16, 8, 128), 512},
    {"fp32", SideBySide(4, 1024, 12, 12, 64, 0, DType::kFloat32)},
};

}  // namespace sluice

#endif  // SLUICE_BENCH_MODELS_ATTENTION_CASES_H_
