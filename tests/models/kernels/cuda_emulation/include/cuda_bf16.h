// Stands where CUDA's own header would: what the kernels of models/kernels/cuda use of the language
// and its intrinsics, for bodies that run on the CPU (see ../block.h).
#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/models/kernels/cuda_emulation/bfloat16.h"
#include "tests/models/kernels/cuda_emulation/block.h"

// Blocks run one after another on one thread, so a block's shared memory can be a static.
#define __global__ static
#define __device__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

namespace sluice::emulation {

struct Index {
  unsigned x = 0, y = 0;
};
inline Index ThreadIndex() { return {.x = static_cast<unsigned>(Here().thread)}; }
inline Index BlockIndex() {
  return {.x = static_cast<unsigned>(Here().block_x), .y = static_cast<unsigned>(Here().block_y)};
}

template <class Number>
struct ShuffleOperand {
  Number value;
  Number result;
  int mask;
};

template <class Number>
Number ShuffleXor(Number value, int mask) {
  ShuffleOperand<Number> operand = {value, value, mask};
  MeetWarp("shfl.xor", &operand, [](Operands lanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      auto* const own = static_cast<ShuffleOperand<Number>*>(lanes[lane]);
      own->result = static_cast<const ShuffleOperand<Number>*>(lanes[lane ^ own->mask])->value;
    }
  });
  return operand.result;
}

}  // namespace sluice::emulation

#define threadIdx ::sluice::emulation::ThreadIndex()
#define blockIdx ::sluice::emulation::BlockIndex()
#define __syncthreads() ::sluice::emulation::MeetBlock()
#define __shfl_xor_sync(lanes, value, mask) ::sluice::emulation::ShuffleXor(value, mask)

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __nv_bfloat162_raw {
  uint16_t x, y;
};
inline float __bfloat162float(__nv_bfloat16 x) { return sluice::emulation::FromBFloat16(x.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return {sluice::emulation::ToBFloat16(value)};
}
inline __nv_bfloat162_raw __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low).bits, __float2bfloat16_rn(high).bits};
}

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_
