#include "models/kernels/cpu/widen.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/widen.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void WidenRow(size_t n, const T* from, float* to) {
  const DF d;
  ForEachVector(
      n, [&](size_t i, auto part) HWY_ATTR { Store(Load(d, from + i, part), d, to + i, part); });
}

template <class T>
void NarrowRow(size_t n, const float* sums, const float* bias, const T* residual, T* to) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    VF value = Load(d, sums + i, part);
    if (bias != nullptr) value = hn::Add(value, Load(d, bias + i, part));
    if (residual != nullptr) value = hn::Add(value, Load(d, residual + i, part));
    Store(value, d, to + i, part);
  });
}

template <class T>
void WidenTile(const Tile<const void>& from, float* to) {
  const auto* data = static_cast<const T*>(from.data);
  const auto columns = static_cast<size_t>(from.columns);
  for (int64_t r = 0; r < from.rows; ++r)
    WidenRow(columns, data + r * from.stride, to + r * from.columns);
}

template <class T>
void NarrowTile(const float* sums, const float* bias, const void* residual, const Tile<void>& to) {
  auto* data = static_cast<T*>(to.data);
  const auto* added = static_cast<const T*>(residual);
  const auto columns = static_cast<size_t>(to.columns);
  for (int64_t r = 0; r < to.rows; ++r) {
    NarrowRow(columns, sums + r * to.columns, bias,
              added == nullptr ? nullptr : added + r * to.stride, data + r * to.stride);
  }
}

}  // namespace

void Widen(DType dtype, const Tile<const void>& from, float* to) {
  if (dtype == DType::kBFloat16) {
    WidenTile<BFloat16>(from, to);
  } else {
    WidenTile<float>(from, to);
  }
}

void Narrow(DType dtype, const float* sums, const float* bias, const void* residual,
            const Tile<void>& to) {
  if (dtype == DType::kBFloat16) {
    NarrowTile<BFloat16>(sums, bias, residual, to);
  } else {
    NarrowTile<float>(sums, bias, residual, to);
  }
}

void RoundToBFloat16Values(size_t n, const float* from, float* to) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const auto rounded = hn::ShiftLeft<16>(RoundToBFloat16(d, Load(d, from + i, part)));
    Store(hn::BitCast(d, rounded), d, to + i, part);
  });
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(Widen);
HWY_EXPORT(Narrow);
HWY_EXPORT(RoundToBFloat16Values);

void Widen(DType dtype, const Tile<const void>& from, float* to) {
  HWY_DYNAMIC_DISPATCH(Widen)(dtype, from, to);
}

void Narrow(DType dtype, const float* sums, const float* bias, const void* residual,
            const Tile<void>& to) {
  HWY_DYNAMIC_DISPATCH(Narrow)(dtype, sums, bias, residual, to);
}

void RoundToBFloat16Values(size_t n, const float* from, float* to) {
  HWY_DYNAMIC_DISPATCH(RoundToBFloat16Values)(n, from, to);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
