#include <algorithm>

#include "models/kernels/cpu/embedding_rows.h"
#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/embedding.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

// y = scale * x (+ offset, where not null).
template <class From, class T>
void ScaleRow(size_t dim, float scale, const From* x, const From* offset, T* y) {
  const DF d;
  const VF factor = hn::Set(d, scale);
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const VF value = Load(d, x + i, part);
    Store(offset == nullptr ? hn::Mul(value, factor)
                            : hn::MulAdd(value, factor, Load(d, offset + i, part)),
          d, y + i, part);
  });
}

template <class From, class T>
void ForwardOf(const EmbeddingRows& of, float scale, const From* wte, const From* wpe, T* y) {
  for (size_t r = 0; r < of.rows; ++r, y += of.dim) {
    ScaleRow(of.dim, scale, wte + of.Token(r) * of.dim,
             wpe == nullptr ? nullptr : wpe + of.Position(r) * of.dim, y);
  }
}

// sum += scale * x.
template <class T>
void AddRow(size_t dim, float scale, const T* x, float* sum) {
  const DF d;
  const VF factor = hn::Set(d, scale);
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    Store(hn::MulAdd(Load(d, x + i, part), factor, Load(d, sum + i, part)), d, sum + i, part);
  });
}

// Of the first `columns` of rows.
template <class T>
void BackwardOf(const EmbeddingRows& of, size_t columns, float scale, const T* dy, float* dwte,
                float* dwpe) {
  for (size_t r = 0; r < of.rows; ++r, dy += of.dim) {
    AddRow(columns, scale, dy, dwte + of.Token(r) * of.dim);
    if (dwpe != nullptr) AddRow(columns, 1.0f, dy, dwpe + of.Position(r) * of.dim);
  }
}

}  // namespace

template <class From>
void ForwardFrom(DType dtype, const EmbeddingRows& of, float scale, const void* wte,
                 const void* wpe, void* y) {
  const auto *tokens = static_cast<const From*>(wte), *positions = static_cast<const From*>(wpe);
  if (dtype == DType::kBFloat16) {
    ForwardOf(of, scale, tokens, positions, static_cast<BFloat16*>(y));
  } else {
    ForwardOf(of, scale, tokens, positions, static_cast<float*>(y));
  }
}

void EmbeddingForward(DType dtype, const EmbeddingRows& of, float scale, DType table_dtype,
                      const void* wte, const void* wpe, void* y) {
  if (table_dtype == DType::kBFloat16) {
    ForwardFrom<BFloat16>(dtype, of, scale, wte, wpe, y);
  } else {
    ForwardFrom<float>(dtype, of, scale, wte, wpe, y);
  }
}

void EmbeddingBackward(DType dtype, const EmbeddingRows& of, size_t columns, float scale,
                       const void* dy, float* dwte, float* dwpe) {
  if (dtype == DType::kBFloat16) {
    BackwardOf(of, columns, scale, static_cast<const BFloat16*>(dy), dwte, dwpe);
  } else {
    BackwardOf(of, columns, scale, static_cast<const float*>(dy), dwte, dwpe);
  }
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(EmbeddingForward);
HWY_EXPORT(EmbeddingBackward);

namespace {

void SetZero(int64_t n, float* x) {
  DivideAmongThreads(n, kValuesOfThread,
                     [&](int64_t first, int64_t count) { std::fill_n(x + first, count, 0.0f); });
}

EmbeddingRows RowsOf(const int32_t* tokens, const int32_t* starts, int64_t rows, int64_t seq,
                     int64_t dim) {
  return {.tokens = tokens,
          .starts = starts,
          .rows = static_cast<size_t>(rows),
          .seq = static_cast<size_t>(seq),
          .dim = static_cast<size_t>(dim)};
}

}  // namespace

void EmbeddingForward(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                      int64_t rows, int64_t seq, int64_t dim, float scale, DType table_dtype,
                      const void* wte, const void* wpe, void* y) {
  HWY_DYNAMIC_DISPATCH(EmbeddingForward)
  (dtype, RowsOf(tokens, starts, rows, seq, dim), scale, table_dtype, wte, wpe, y);
}

void EmbeddingBackward(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                       int64_t rows, int64_t seq, int64_t dim, int64_t vocab, int64_t max_seq,
                       float scale, const void* dy, float* dwte, float* dwpe, bool accumulate,
                       void* /*workspace*/) {
  if (!accumulate) {
    SetZero(vocab * dim, dwte);
    if (dwpe != nullptr) SetZero(max_seq * dim, dwpe);
  }
  // Rows of one token are added in their order, so each thread takes some columns of all rows.
  DivideAmongThreads(dim, ColumnsOfThread(rows), [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(EmbeddingBackward)
    (dtype, RowsOf(tokens, starts, rows, seq, dim), static_cast<size_t>(count), scale,
     ValueAt(dtype, dy, first), dwte + first, dwpe == nullptr ? nullptr : dwpe + first);
  });
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
