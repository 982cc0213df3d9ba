#include <cmath>
#include <cstring>

#include "models/kernels/cpu/functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/layer_norm.cc"
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

// Around the mean, in a second pass over a row that is in the cache: exact where mean^2 >>
// variance.
template <class T>
float Variance(size_t dim, const T* x, float mean) {
  const VF center = hn::Set(DF(), mean);
  VF sum = hn::Zero(DF());
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const VF off = OnlyHead(hn::Sub(Load(DF(), x + i, part), center), part);
    sum = hn::MulAdd(off, off, sum);
  });
  return SumAll(sum) / static_cast<float>(dim);
}

template <class T>
void ForwardOf(size_t rows, size_t dim, float epsilon, const T* x, const float* gamma,
               const float* beta, T* y, float* mean, float* rstd) {
  const DF d;
  for (size_t r = 0; r < rows; ++r, x += dim, y += dim) {
    mean[r] = Mean(dim, x);
    rstd[r] = 1.0f / std::sqrt(Variance(dim, x, mean[r]) + epsilon);
    const VF center = hn::Set(d, mean[r]);
    const VF scale = hn::Set(d, rstd[r]);
    ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
      const VF normal = hn::Mul(hn::Sub(Load(d, x + i, part), center), scale);
      const VF out = hn::MulAdd(normal, Load(d, gamma + i, part), Load(d, beta + i, part));
      Store(out, d, y + i, part);
    });
  }
}

// With n = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - n mean(g n)).
template <class T>
void BackwardRow(size_t dim, const T* dy, const T* x, const float* gamma, float mean, float rstd,
                 const T* residual_grad, T* dx, float* dgamma, float* dbeta) {
  const DF d;
  const VF center = hn::Set(d, mean);
  const VF scale = hn::Set(d, rstd);
  VF sum_g = hn::Zero(d);
  VF sum_gn = hn::Zero(d);
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const VF grad = Load(d, dy + i, part);  // zero past the row's end, and so is all that follows
    const VF normal = hn::Mul(hn::Sub(Load(d, x + i, part), center), scale);
    const VF g = hn::Mul(grad, Load(d, gamma + i, part));
    sum_g = hn::Add(sum_g, g);
    sum_gn = hn::MulAdd(g, normal, sum_gn);
    Store(hn::MulAdd(grad, normal, Load(d, dgamma + i, part)), d, dgamma + i, part);
    Store(hn::Add(grad, Load(d, dbeta + i, part)), d, dbeta + i, part);
  });
  const VF mean_g = hn::Set(d, SumAll(sum_g) / static_cast<float>(dim));
  const VF mean_gn = hn::Set(d, SumAll(sum_gn) / static_cast<float>(dim));
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    const VF normal = hn::Mul(hn::Sub(Load(d, x + i, part), center), scale);
    const VF g = hn::Mul(Load(d, dy + i, part), Load(d, gamma + i, part));
    VF grad = hn::Mul(scale, hn::NegMulAdd(normal, mean_gn, hn::Sub(g, mean_g)));
    if (residual_grad != nullptr) grad = hn::Add(grad, Load(d, residual_grad + i, part));
    Store(grad, d, dx + i, part);
  });
}

template <class T>
void BackwardOf(size_t rows, size_t dim, const T* dy, const T* x, const float* gamma,
                const float* mean, const float* rstd, const T* residual_grad, T* dx,
                float* partial) {
  std::memset(partial, 0, 2 * dim * sizeof(float));
  for (size_t r = 0; r < rows; ++r) {
    const size_t at = r * dim;
    BackwardRow(dim, dy + at, x + at, gamma, mean[r], rstd[r],
                residual_grad == nullptr ? nullptr : residual_grad + at, dx + at, partial,
                partial + dim);
  }
}

}  // namespace

void LayerNormForward(DType dtype, size_t rows, size_t dim, float epsilon, const void* x,
                      const float* gamma, const float* beta, void* y, float* mean, float* rstd) {
  const auto run = [&]<class T>(T*) {
    ForwardOf(rows, dim, epsilon, static_cast<const T*>(x), gamma, beta, static_cast<T*>(y), mean,
              rstd);
  };
  dtype == DType::kBFloat16 ? run(static_cast<BFloat16*>(nullptr))
                            : run(static_cast<float*>(nullptr));
}

void LayerNormBackward(DType dtype, size_t rows, size_t dim, const void* dy, const void* x,
                       const float* gamma, const float* mean, const float* rstd,
                       const void* residual_grad, void* dx, float* partial) {
  const auto run = [&]<class T>(T*) {
    BackwardOf(rows, dim, static_cast<const T*>(dy), static_cast<const T*>(x), gamma, mean, rstd,
               static_cast<const T*>(residual_grad), static_cast<T*>(dx), partial);
  };
  dtype == DType::kBFloat16 ? run(static_cast<BFloat16*>(nullptr))
                            : run(static_cast<float*>(nullptr));
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(LayerNormForward);
HWY_EXPORT(LayerNormBackward);

void LayerNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon, const void* x,
                      const float* gamma, const float* beta, void* y, float* mean, float* rstd) {
  HWY_DYNAMIC_DISPATCH(LayerNormForward)
  (dtype, static_cast<size_t>(rows), static_cast<size_t>(dim), epsilon, x, gamma, beta, y, mean,
   rstd);
}

void LayerNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, const void* dy,
                       const void* x, const float* gamma, const float* mean, const float* rstd,
                       const void* residual_grad, void* dx, float* partial, void* /*workspace*/) {
  HWY_DYNAMIC_DISPATCH(LayerNormBackward)
  (dtype, static_cast<size_t>(rows), static_cast<size_t>(dim), dy, x, gamma, mean, rstd,
   residual_grad, dx, partial);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
