#ifndef SLUICE_MODELS_KERNELS_CUDA_VECTOR_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_VECTOR_CUH_

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "models/kernels/cuda/launch_sizes.h"

// Loads and stores for both fp32 and bf16. A thread handles kPart neighbouring values at a time, 16
// bytes of bf16 or twice 16 of fp32, or kFloatPart where all values are fp32. Which thread handles
// which values never depends on how a tensor is aligned, so the order of sums does not either.
namespace sluice::cuda {

using BFloat16 = __nv_bfloat16;

constexpr unsigned kWholeWarp = 0xFFFFFFFFu;

__device__ inline float Widen(float x) { return x; }
__device__ inline float Widen(BFloat16 x) { return __bfloat162float(x); }

// To nearest even; NaN stays one.
__device__ inline void Narrow(float value, float* to) { *to = value; }
__device__ inline void Narrow(float value, BFloat16* to) { *to = __float2bfloat16_rn(value); }

// Values from, or to, 16-byte aligned memory.
__device__ inline void LoadAligned(const float* p, float (&values)[kFloatPart]) {
  const float4 four = *reinterpret_cast<const float4*>(p);
  values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
}

__device__ inline void WidenPair(uint32_t bits, float* low, float* high) {
  *low = __uint_as_float(bits << 16);
  *high = __uint_as_float(bits & 0xFFFF0000u);
}

// kPart values as they lie in memory: a thread that holds parts of a row until it has seen the
// whole row has twice as many of them in its registers as it would have of floats.
template <class T>
struct Packed;
template <>
struct Packed<float> {
  float4 low, high;
};
template <>
struct Packed<BFloat16> {
  uint4 bits;
};

// From 16-byte aligned memory.
__device__ inline Packed<float> LoadPacked(const float* p) {
  return {reinterpret_cast<const float4*>(p)[0], reinterpret_cast<const float4*>(p)[1]};
}
__device__ inline Packed<BFloat16> LoadPacked(const BFloat16* p) {
  return {*reinterpret_cast<const uint4*>(p)};
}

__device__ inline void Unpack(const Packed<float>& from, float (&values)[kPart]) {
  values[0] = from.low.x, values[1] = from.low.y, values[2] = from.low.z, values[3] = from.low.w;
  values[4] = from.high.x, values[5] = from.high.y, values[6] = from.high.z;
  values[7] = from.high.w;
}

__device__ inline void Unpack(const Packed<BFloat16>& from, float (&values)[kPart]) {
  WidenPair(from.bits.x, &values[0], &values[1]);
  WidenPair(from.bits.y, &values[2], &values[3]);
  WidenPair(from.bits.z, &values[4], &values[5]);
  WidenPair(from.bits.w, &values[6], &values[7]);
}

template <class T>
__device__ inline void LoadAligned(const T* p, float (&values)[kPart]) {
  Unpack(LoadPacked(p), values);
}

__device__ inline void StoreAligned(const float (&values)[kFloatPart], float* p) {
  *reinterpret_cast<float4*>(p) = make_float4(values[0], values[1], values[2], values[3]);
}

__device__ inline void StoreAligned(const float (&values)[kPart], float* p) {
  float4* const to = reinterpret_cast<float4*>(p);
  to[0] = make_float4(values[0], values[1], values[2], values[3]);
  to[1] = make_float4(values[4], values[5], values[6], values[7]);
}

__device__ inline uint32_t NarrowPair(float low, float high) {
  const __nv_bfloat162_raw pair = __floats2bfloat162_rn(low, high);
  return static_cast<uint32_t>(pair.y) << 16 | pair.x;
}

__device__ inline void StoreAligned(const float (&values)[kPart], BFloat16* p) {
  *reinterpret_cast<uint4*>(p) =
      make_uint4(NarrowPair(values[0], values[1]), NarrowPair(values[2], values[3]),
                 NarrowPair(values[4], values[5]), NarrowPair(values[6], values[7]));
}

// row[first ... first + kN - 1] of a row of n. kWhole: all of them are in the row, from an address
// that is aligned to 16 bytes; otherwise `fill` stands before the row's start and past its end,
// whose memory is not touched.
template <bool kWhole, int kN, class T>
__device__ inline void LoadPart(const T* row, int64_t first, int64_t n, float fill,
                                float (&values)[kN]) {
  if constexpr (kWhole) {
    LoadAligned(row + first, values);
  } else {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const int64_t i = first + j;
      values[j] = i >= 0 && i < n ? Widen(row[i]) : fill;
    }
  }
}

template <bool kWhole, int kN, class T>
__device__ inline void StorePart(const float (&values)[kN], int64_t first, int64_t n, T* row) {
  if constexpr (kWhole) {
    StoreAligned(values, row + first);
  } else {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const int64_t i = first + j;
      if (i >= 0 && i < n) Narrow(values[j], row + i);
    }
  }
}

// Calls body(std::bool_constant<whole>, first) for a thread's parts of a row of n: at `first`,
// which may lie before the row, first + stride, ... kAligned: a part within the row is 16-byte
// aligned. The parts that are whole are a loop without a branch, so that loads of several are under
// way.
template <bool kAligned, int kN, class Body>
__device__ inline void ForParts(int64_t first, int64_t stride, int64_t n, const Body& body) {
  int64_t i = first;
  if constexpr (kAligned) {
    if (i < 0) {
      body(std::false_type(), i);
      i += stride;
    }
#pragma unroll 4
    for (; i + kN <= n; i += stride) body(std::true_type(), i);
  }
  for (; i < n; i += stride) body(std::false_type(), i);
}

// The same for the single part at `first`, if it begins within the row.
template <bool kAligned, int kN, class Body>
__device__ inline void ForOnePart(int64_t first, int64_t n, const Body& body) {
  if (kAligned && first + kN <= n) {
    body(std::true_type(), first);
  } else if (first < n) {
    body(std::false_type(), first);
  }
}

// The tensor that this block is for, of `count` that one launch handles: the blocks of tensor t
// begin at first_block[t], which ascend from 0.
__device__ inline int ListedTensor(const unsigned* first_block, int count) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (first_block[middle] <= blockIdx.x ? low : high) = middle;
  }
  return low;
}

// x / y for 1 <= y <= 2^126, NaN stays one: rounded for tensors of fp32; within 2 ulp for those of
// bf16, whose own rounding is far coarser, by two instructions in the place of a division's ten.
template <class T>
__device__ inline float Quotient(float x, float y) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, BFloat16>) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
    return x * inverse;
  } else {
    return x / y;
  }
#else
  return x / y;
#endif
}

// The sum over a warp, the same in all lanes.
template <class Number>
__device__ inline Number WarpSum(Number x) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kWholeWarp, x, lanes);
  return x;
}

// e^x with an error of about 4e-8 |x|: what falls short for a far exponent is then a small part of
// a sum. NaN stays one; 0 below -87.
__device__ inline float Exp(float x) {
  const float exponent = x * 1.44269504088896341f;
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
#else
  return exp2f(exponent);
#endif
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_VECTOR_CUH_
