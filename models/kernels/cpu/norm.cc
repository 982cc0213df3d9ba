#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

template <class T>
float Mean(size_t dim, const T* x) {
  VF sum = hn::Zero(DF());
  ForEachVector(dim,
                [&](size_t i, auto part) HWY_ATTR { sum = hn::Add(sum, Load(DF(), x + i, part)); });
  return SumAll(sum) / static_cast<float>(dim);
}

// RMS norm is layer norm around 0 and without beta. kCentered, here and below, is true for layer
// norm.
template <bool kCentered>
HWY_INLINE VF Off(VF x, VF center) {
  if constexpr (kCentered) {
    return hn::Sub(x, center);
  } else {
    return x;
  }
}

// The variance of a layer norm around the mean, in a second pass over a row that is in the cache:
// exact where mean^2 >> variance.
template <bool kCentered, class T>
float MeanSquare(size_t dim, const T* x, float mean) {
  const VF center = hn::Set(DF(), mean);
  VF sum = hn::Zero(DF());
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const VF off = OnlyHead(Off<kCentered>(Load(DF(), x + i, part), center), part);
    sum = hn::MulAdd(off, off, sum);
  });
  return SumAll(sum) / static_cast<float>(dim);
}

// A layer norm's gain is gamma.
template <bool kCentered, class Part>
HWY_INLINE VF Gain(const float* gamma, float offset, Part part) {
  const VF gain = Load(DF(), gamma, part);
  if constexpr (kCentered) {
    return gain;
  } else {
    return hn::Add(gain, hn::Set(DF(), offset));
  }
}

// An RMS norm has no beta, a layer norm no gain_offset and no residual.
template <bool kCentered, class T>
void ForwardOf(size_t rows, size_t dim, float epsilon, float gain_offset, const T* x,
               const float* gamma, const float* beta, const T* residual, T* y, float* mean,
               float* rstd) {
  const DF d;
  for (size_t r = 0; r < rows; ++r, x += dim, y += dim) {
    float mu = 0;
    if constexpr (kCentered) mu = mean[r] = Mean(dim, x);
    rstd[r] = 1.0f / std::sqrt(MeanSquare<kCentered>(dim, x, mu) + epsilon);
    const VF center = hn::Set(d, mu);
    const VF scale = hn::Set(d, rstd[r]);
    ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
      const VF normal = hn::Mul(Off<kCentered>(Load(d, x + i, part), center), scale);
      const VF gain = Gain<kCentered>(gamma + i, gain_offset, part);
      if constexpr (kCentered) {
        Store(hn::MulAdd(normal, gain, Load(d, beta + i, part)), d, y + i, part);
      } else if (residual == nullptr) {
        Store(hn::Mul(normal, gain), d, y + i, part);
      } else {
        const VF added = Load(d, residual + r * dim + i, part);
        Store(hn::MulAdd(normal, gain, added), d, y + i, part);
      }
    });
  }
}

// With n = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - n mean(g n)), where an RMS
// norm has neither the mean of x nor that of g.
template <bool kCentered, class T>
void InputGradRow(size_t dim, float gain_offset, const T* dy, const T* x, const float* gamma,
                  float mean, float rstd, const T* residual_grad, T* dx) {
  const DF d;
  const VF center = hn::Set(d, mean);
  const VF scale = hn::Set(d, rstd);
  VF sum_g = hn::Zero(d);
  VF sum_gn = hn::Zero(d);
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const VF grad = Load(d, dy + i, part);  // zero past the row's end, and so is all that follows
    const VF normal = hn::Mul(Off<kCentered>(Load(d, x + i, part), center), scale);
    const VF g = hn::Mul(grad, Gain<kCentered>(gamma + i, gain_offset, part));
    sum_gn = hn::MulAdd(g, normal, sum_gn);
    if constexpr (kCentered) sum_g = hn::Add(sum_g, g);
  });
  const VF mean_g = hn::Set(d, SumAll(sum_g) / static_cast<float>(dim));
  const VF mean_gn = hn::Set(d, SumAll(sum_gn) / static_cast<float>(dim));
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const VF normal = hn::Mul(Off<kCentered>(Load(d, x + i, part), center), scale);
    const VF g = hn::Mul(Load(d, dy + i, part), Gain<kCentered>(gamma + i, gain_offset, part));
    VF grad = hn::Mul(scale, hn::NegMulAdd(normal, mean_gn, Off<kCentered>(g, mean_g)));
    if (residual_grad != nullptr) grad = hn::Add(grad, Load(d, residual_grad + i, part));
    Store(grad, d, dx + i, part);
  });
}

template <bool kCentered, class T>
void InputGradOf(size_t rows, size_t dim, float gain_offset, const T* dy, const T* x,
                 const float* gamma, const float* mean, const float* rstd, const T* residual_grad,
                 T* dx) {
  for (size_t r = 0; r < rows; ++r) {
    const size_t at = r * dim;
    InputGradRow<kCentered>(dim, gain_offset, dy + at, x + at, gamma, kCentered ? mean[r] : 0,
                            rstd[r], residual_grad == nullptr ? nullptr : residual_grad + at,
                            dx + at);
  }
}

constexpr size_t kRowsAtOnce = 8;

// Adds at most kRowsAtOnce rows, one after the other, so that each sum is loaded and stored once for
// all of them. `dbeta` only of a layer norm.
template <bool kCentered, class T>
void AddWeightGrads(size_t rows, size_t columns, size_t dim, const T* dy, const T* x,
                    const float* mean, const float* rstd, float* dgamma, float* dbeta) {
  const DF d;
  ForEachVector(columns, [&](size_t i, auto part) HWY_ATTR {
    VF of_gamma = Load(d, dgamma + i, part);
    VF of_beta = hn::Zero(d);
    if constexpr (kCentered) of_beta = Load(d, dbeta + i, part);
    for (size_t r = 0; r < rows; ++r) {
      const VF grad = Load(d, dy + r * dim + i, part);
      const VF off =
          Off<kCentered>(Load(d, x + r * dim + i, part), hn::Set(d, kCentered ? mean[r] : 0));
      of_gamma = hn::MulAdd(grad, hn::Mul(off, hn::Set(d, rstd[r])), of_gamma);
      if constexpr (kCentered) of_beta = hn::Add(grad, of_beta);
    }
    Store(of_gamma, d, dgamma + i, part);
    if constexpr (kCentered) Store(of_beta, d, dbeta + i, part);
  });
}

// Some columns of partial[dim]: dgamma; and, of a layer norm, dbeta[dim]. `dy`, `x` and `partial`
// begin with the first of them.
template <bool kCentered, class T>
void WeightGradOf(size_t rows, size_t columns, size_t dim, const T* dy, const T* x,
                  const float* mean, const float* rstd, float* partial) {
  float* const dbeta = kCentered ? partial + dim : nullptr;
  std::fill_n(partial, columns, 0.0f);
  if constexpr (kCentered) std::fill_n(dbeta, columns, 0.0f);
  for (size_t r = 0; r < rows; r += kRowsAtOnce) {
    AddWeightGrads<kCentered>(std::min(kRowsAtOnce, rows - r), columns, dim, dy + r * dim,
                              x + r * dim, kCentered ? mean + r : nullptr, rstd + r, partial,
                              dbeta);
  }
}

// Calls body(whether it is centered, null pointer of the element type).
template <class Body>
void Choose(bool centered, DType dtype, const Body& body) {
  const auto with_type = [&](auto* type) {
    centered ? body(std::true_type(), type) : body(std::false_type(), type);
  };
  dtype == DType::kBFloat16 ? with_type(static_cast<BFloat16*>(nullptr))
                            : with_type(static_cast<float*>(nullptr));
}

}  // namespace

// Both norms: without `mean`, an RMS norm.
void NormForward(DType dtype, size_t rows, size_t dim, float epsilon, float gain_offset,
                 const void* x, const float* gamma, const float* beta, const void* residual,
                 void* y, float* mean, float* rstd) {
  Choose(mean != nullptr, dtype, [&]<class T>(auto centered, T*) {
    ForwardOf<centered.value>(rows, dim, epsilon, gain_offset, static_cast<const T*>(x), gamma,
                              beta, static_cast<const T*>(residual), static_cast<T*>(y), mean,
                              rstd);
  });
}

void NormInputGrad(DType dtype, size_t rows, size_t dim, float gain_offset, const void* dy,
                   const void* x, const float* gamma, const float* mean, const float* rstd,
                   const void* residual_grad, void* dx) {
  Choose(mean != nullptr, dtype, [&]<class T>(auto centered, T*) {
    InputGradOf<centered.value>(rows, dim, gain_offset, static_cast<const T*>(dy),
                                static_cast<const T*>(x), gamma, mean, rstd,
                                static_cast<const T*>(residual_grad), static_cast<T*>(dx));
  });
}

void NormWeightGrad(DType dtype, size_t rows, size_t columns, size_t dim, const void* dy,
                    const void* x, const float* mean, const float* rstd, float* partial) {
  Choose(mean != nullptr, dtype, [&]<class T>(auto centered, T*) {
    WeightGradOf<centered.value>(rows, columns, dim, static_cast<const T*>(dy),
                                 static_cast<const T*>(x), mean, rstd, partial);
  });
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(NormForward);
HWY_EXPORT(NormInputGrad);
HWY_EXPORT(NormWeightGrad);

namespace {

// Rows' statistics from the `first` on; `mean` is null for an RMS norm.
template <class Float>
Float* From(Float* statistic, int64_t first) {
  return statistic == nullptr ? nullptr : statistic + first;
}

// Both norms, rows divided among threads.
void Forward(DType dtype, int64_t rows, int64_t dim, float epsilon, float gain_offset,
             const void* x, const float* gamma, const float* beta, const void* residual, void* y,
             float* mean, float* rstd) {
  DivideAmongThreads(rows, RowsOfThread(dim), [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(NormForward)
    (dtype, static_cast<size_t>(count), static_cast<size_t>(dim), epsilon, gain_offset,
     ValueAt(dtype, x, first * dim), gamma, beta, ValueAt(dtype, residual, first * dim),
     ValueAt(dtype, y, first * dim), From(mean, first), From(rstd, first));
  });
}

// The weights' gradients are sums over all rows, in their order, of which each thread computes some
// columns; those of the input are divided by rows.
void Backward(DType dtype, int64_t rows, int64_t dim, float gain_offset, const void* dy,
              const void* x, const float* gamma, const float* mean, const float* rstd,
              const void* residual_grad, void* dx, float* partial) {
  const int64_t columns = partial == nullptr ? 0 : dim;
  DivideAmongThreads(columns, ColumnsOfThread(rows), [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(NormWeightGrad)
    (dtype, static_cast<size_t>(rows), static_cast<size_t>(count), static_cast<size_t>(dim),
     ValueAt(dtype, dy, first), ValueAt(dtype, x, first), mean, rstd, partial + first);
  });
  DivideAmongThreads(rows, RowsOfThread(dim), [&](int64_t first, int64_t count) {
    const int64_t at = first * dim;
    HWY_DYNAMIC_DISPATCH(NormInputGrad)
    (dtype, static_cast<size_t>(count), static_cast<size_t>(dim), gain_offset,
     ValueAt(dtype, dy, at), ValueAt(dtype, x, at), gamma, From(mean, first), From(rstd, first),
     ValueAt(dtype, residual_grad, at), ValueAt(dtype, dx, at));
  });
}

}  // namespace

void LayerNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon, const void* x,
                      const float* gamma, const float* beta, void* y, float* mean, float* rstd) {
  Forward(dtype, rows, dim, epsilon, 0, x, gamma, beta, nullptr, y, mean, rstd);
}

void LayerNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, const void* dy,
                       const void* x, const float* gamma, const float* mean, const float* rstd,
                       const void* residual_grad, void* dx, float* partial, void* /*workspace*/) {
  Backward(dtype, rows, dim, 0, dy, x, gamma, mean, rstd, residual_grad, dx, partial);
}

void RmsNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                    float gain_offset, const void* x, const float* gamma, const void* residual,
                    void* y, float* rrms) {
  Forward(dtype, rows, dim, epsilon, gain_offset, x, gamma, nullptr, residual, y, nullptr, rrms);
}

void RmsNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, float gain_offset,
                     const void* dy, const void* x, const float* gamma, const float* rrms,
                     const void* residual_grad, void* dx, float* partial, void* /*workspace*/) {
  Backward(dtype, rows, dim, gain_offset, dy, x, gamma, nullptr, rrms, residual_grad, dx, partial);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
