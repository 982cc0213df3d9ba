#include <cstring>

#include "models/kernels/cpu/functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/embedding.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void ForwardOf(const int32_t* tokens, size_t rows, size_t seq, size_t dim, const float* wte,
               const float* wpe, T* y) {
  for (size_t r = 0; r < rows; ++r, y += dim) {
    const float* token = wte + static_cast<size_t>(tokens[r]) * dim;
    const float* position = wpe + r % seq * dim;
    ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
      const DF d;
      Store(hn::Add(Load(d, token + i, part), Load(d, position + i, part)), d, y + i, part);
    });
  }
}

template <class T>
void AddRow(size_t dim, const T* x, float* sum) {
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const DF d;
    Store(hn::Add(Load(d, sum + i, part), Load(d, x + i, part)), d, sum + i, part);
  });
}

template <class T>
void BackwardOf(const int32_t* tokens, size_t rows, size_t seq, size_t dim, const T* dy,
                float* dwte, float* dwpe) {
  for (size_t r = 0; r < rows; ++r, dy += dim) {
    AddRow(dim, dy, dwte + static_cast<size_t>(tokens[r]) * dim);
    AddRow(dim, dy, dwpe + r % seq * dim);
  }
}

}  // namespace

void EmbeddingForward(DType dtype, const int32_t* tokens, size_t rows, size_t seq, size_t dim,
                      const float* wte, const float* wpe, void* y) {
  if (dtype == DType::kBFloat16) {
    ForwardOf(tokens, rows, seq, dim, wte, wpe, static_cast<BFloat16*>(y));
  } else {
    ForwardOf(tokens, rows, seq, dim, wte, wpe, static_cast<float*>(y));
  }
}

void EmbeddingBackward(DType dtype, const int32_t* tokens, size_t rows, size_t seq, size_t dim,
                       const void* dy, float* dwte, float* dwpe) {
  if (dtype == DType::kBFloat16) {
    BackwardOf(tokens, rows, seq, dim, static_cast<const BFloat16*>(dy), dwte, dwpe);
  } else {
    BackwardOf(tokens, rows, seq, dim, static_cast<const float*>(dy), dwte, dwpe);
  }
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(EmbeddingForward);
HWY_EXPORT(EmbeddingBackward);

void EmbeddingForward(Stream, DType dtype, const int32_t* tokens, int64_t rows, int64_t seq,
                      int64_t dim, const float* wte, const float* wpe, void* y) {
  HWY_DYNAMIC_DISPATCH(EmbeddingForward)
  (dtype, tokens, static_cast<size_t>(rows), static_cast<size_t>(seq), static_cast<size_t>(dim),
   wte, wpe, y);
}

void EmbeddingBackward(Stream, DType dtype, const int32_t* tokens, int64_t rows, int64_t seq,
                       int64_t dim, int64_t vocab, int64_t max_seq, const void* dy, float* dwte,
                       float* dwpe, bool accumulate, void* /*workspace*/) {
  if (!accumulate) {
    std::memset(dwte, 0, static_cast<size_t>(vocab * dim) * sizeof(float));
    std::memset(dwpe, 0, static_cast<size_t>(max_seq * dim) * sizeof(float));
  }
  HWY_DYNAMIC_DISPATCH(EmbeddingBackward)
  (dtype, tokens, static_cast<size_t>(rows), static_cast<size_t>(seq), static_cast<size_t>(dim), dy,
   dwte, dwpe);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
