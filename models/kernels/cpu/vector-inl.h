// Loads and stores for both fp32 and bf16, for one Highway target at a time (hence the toggled
// include guard). A bf16 is a uint16_t in memory and an fp32 in a register; stores round to nearest
// even and keep NaNs.
#if defined(SLUICE_MODELS_KERNELS_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MODELS_KERNELS_CPU_VECTOR_INL_H_
#undef SLUICE_MODELS_KERNELS_CPU_VECTOR_INL_H_
#else
#define SLUICE_MODELS_KERNELS_CPU_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "models/spec/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using BFloat16 = uint16_t;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr size_t kLanes = hn::MaxLanes(DF());

// The lanes of a vector that are used: all of them, or the first n at the end of a row.
struct Full {};
struct Head {
  size_t n;
};

template <class D>
HWY_INLINE hn::Vec<D> Load(D d, const float* p, Full) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> Load(D d, const BFloat16* p, Full) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, p))));
}

#if HWY_TARGET != HWY_SCALAR
// Rows of four lanes as columns: to[i * to_row + j] = lane i of row j.
template <class D, class V>
HWY_INLINE void StoreTransposed(D d, V row0, V row1, V row2, V row3, hn::TFromD<D>* to,
                                size_t to_row) {
  const auto even01 = hn::InterleaveLower(d, row0, row2);
  const auto odd01 = hn::InterleaveLower(d, row1, row3);
  const auto even23 = hn::InterleaveUpper(d, row0, row2);
  const auto odd23 = hn::InterleaveUpper(d, row1, row3);
  hn::StoreU(hn::InterleaveLower(d, even01, odd01), d, to);
  hn::StoreU(hn::InterleaveUpper(d, even01, odd01), d, to + to_row);
  hn::StoreU(hn::InterleaveLower(d, even23, odd23), d, to + 2 * to_row);
  hn::StoreU(hn::InterleaveUpper(d, even23, odd23), d, to + 3 * to_row);
}
#endif

// The bf16 nearest to each lane, in the low half of a 32-bit lane.
template <class D, class V>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> RoundToBFloat16(D, V v) {
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(d32, 1u));
  const auto nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFFu))));
  const auto quiet_nan = hn::Or(high, hn::Set(d32, 0x40u));
  return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet_nan, nearest);
}

template <class D, class V>
HWY_INLINE void Store(V v, D, float* p, Full) {
  hn::StoreU(v, D(), p);
}

template <class D, class V>
HWY_INLINE void Store(V v, D d, BFloat16* p, Full) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<int32_t, D> i32;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(i32, RoundToBFloat16(d, v))), d16, p);
}

// Lanes past n read as zero; memory past n is not touched.
template <class D, class T>
HWY_INLINE hn::Vec<D> Load(D d, const T* p, Head head) {
  HWY_ALIGN T buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer, p, head.n * sizeof(T));
  return Load(d, buffer, Full());
}

template <class D, class V, class T>
HWY_INLINE void Store(V v, D d, T* p, Head head) {
  HWY_ALIGN T buffer[hn::MaxLanes(D())];
  Store(v, d, buffer, Full());
  std::memcpy(p, buffer, head.n * sizeof(T));
}

// fp32 values in two parts (models/spec/bfloat16.h).
HWY_INLINE VF LoadSplit(const BFloat16* high, const uint16_t* low, Full) {
  const DF d;
  const hn::RebindToSigned<DF> i32;
  const hn::Rebind<int16_t, DF> i16;
  // A low half from 0x8000 on is a negative difference.
  const auto difference = hn::PromoteTo(i32, hn::LoadU(i16, reinterpret_cast<const int16_t*>(low)));
  return hn::BitCast(d, hn::Add(hn::BitCast(i32, Load(d, high, Full())), difference));
}

HWY_INLINE void StoreSplit(VF v, BFloat16* high, uint16_t* low, Full) {
  const hn::RebindToUnsigned<DF> u32;
  const hn::RebindToSigned<DF> i32;
  const hn::Rebind<uint16_t, DF> u16;
  const auto bits = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), hn::Set(u32, 0x7fc00000U),
                                   hn::BitCast(u32, v));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Set(u32, 0x8000U)));
  hn::StoreU(hn::DemoteTo(u16, hn::BitCast(i32, rounded)), u16, high);
  const auto rest = hn::And(bits, hn::Set(u32, 0xffffU));
  hn::StoreU(hn::DemoteTo(u16, hn::BitCast(i32, rest)), u16, low);
}

HWY_INLINE VF LoadSplit(const BFloat16* high, const uint16_t* low, Head head) {
  HWY_ALIGN uint16_t buffers[2][kLanes] = {};
  std::memcpy(buffers[0], high, head.n * sizeof(uint16_t));
  std::memcpy(buffers[1], low, head.n * sizeof(uint16_t));
  return LoadSplit(buffers[0], buffers[1], Full());
}

HWY_INLINE void StoreSplit(VF v, BFloat16* high, uint16_t* low, Head head) {
  HWY_ALIGN uint16_t buffers[2][kLanes];
  StoreSplit(v, buffers[0], buffers[1], Full());
  std::memcpy(high, buffers[0], head.n * sizeof(uint16_t));
  std::memcpy(low, buffers[1], head.n * sizeof(uint16_t));
}

// Calls body(i, part) for each vector of n elements; the last part may be a Head.
template <class Body>
HWY_INLINE void ForEachVector(size_t n, const Body& body) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full());
  if (i < n) body(i, Head{n - i});
}

HWY_INLINE VF OnlyHead(VF v, Full) { return v; }
HWY_INLINE VF OnlyHead(VF v, Head head) { return hn::IfThenElseZero(hn::FirstN(DF(), head.n), v); }
HWY_INLINE VF HeadOr(VF v, VF, Full) { return v; }
HWY_INLINE VF HeadOr(VF v, VF other, Head head) {
  return hn::IfThenElse(hn::FirstN(DF(), head.n), v, other);
}

HWY_INLINE float SumAll(VF v) { return hn::GetLane(hn::SumOfLanes(DF(), v)); }
HWY_INLINE float MaxAll(VF v) { return hn::GetLane(hn::MaxOfLanes(DF(), v)); }

// e^x for x up to 88, within 2 units in the last place; 0 below -87, so that no denormal slows what
// follows; a NaN stays one. Half as long as Highway's Exp, which serves all of fp32 but makes NaN 0
// and so would hide a diverged run. With n = round(x / ln 2), e^x = 2^n e^(x - n ln 2), the second
// factor by the polynomial of Cephes' expf (Moshier 1989).
HWY_INLINE VF ExpOf(VF x) {
  const DF d;
  const hn::RebindToUnsigned<DF> bits;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits; 127 more is the
  // exponent's bias.
  const VF magic = hn::Set(d, 12582912.0f + 127.0f);
  const VF biased = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), magic);
  const VF n = hn::Sub(biased, magic);
  const VF power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, biased)));
  // ln 2 in two parts, the first short enough for an exact product.
  VF r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  VF p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, hn::Set(d, 1.0f)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Mul(p, power));
}

// tanh x within 5 units in the last place, also of small x; a NaN stays one. A quotient of
// polynomials (Guennebaud & Jacob 2010, Eigen, MathFunctionsImpl.h), beyond whose range tanh x is 1
// but for the last bits.
HWY_INLINE VF TanhOf(VF x) {
  const DF d;
  const VF end = hn::Set(d, 7.90531110763549805f);
  VF y = hn::IfThenElse(hn::Gt(x, end), end, x);
  y = hn::IfThenElse(hn::Lt(y, hn::Neg(end)), hn::Neg(end), y);
  const VF y2 = hn::Mul(y, y);
  VF p = hn::Set(d, -2.76076847742355e-16f);
  p = hn::MulAdd(p, y2, hn::Set(d, 2.00018790482477e-13f));
  p = hn::MulAdd(p, y2, hn::Set(d, -8.60467152213735e-11f));
  p = hn::MulAdd(p, y2, hn::Set(d, 5.12229709037114e-08f));
  p = hn::MulAdd(p, y2, hn::Set(d, 1.48572235717979e-05f));
  p = hn::MulAdd(p, y2, hn::Set(d, 6.37261928875436e-04f));
  p = hn::MulAdd(p, y2, hn::Set(d, 4.89352455891786e-03f));
  VF q = hn::Set(d, 1.19825839466702e-06f);
  q = hn::MulAdd(q, y2, hn::Set(d, 1.18534705686654e-04f));
  q = hn::MulAdd(q, y2, hn::Set(d, 2.26843463243900e-03f));
  q = hn::MulAdd(q, y2, hn::Set(d, 4.89352518554385e-03f));
  return hn::Div(hn::Mul(y, p), q);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_MODELS_KERNELS_CPU_VECTOR_INL_H_
