#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PRIMITIVES_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PRIMITIVES_CUH_

#include <cstdint>

#include "models/kernels/cuda/async_copy.cuh"

// The few instructions of PTX that attention is made of, beside the copies of async_copy.cuh (PTX
// ISA 8.0, sections 9.7.8 and 9.7.13). Compiled by anything but nvcc they are mere declarations,
// and tests/models/kernels/cuda_emulation brings a definition that runs on a CPU.
#ifdef __CUDACC__
#define SLUICE_UNROLL _Pragma("unroll")
#define SLUICE_UNROLL_FOUR _Pragma("unroll 4")
#else
#define SLUICE_UNROLL
#define SLUICE_UNROLL_FOUR
#endif

namespace sluice::cuda::attention {

// What one instruction moves.
struct alignas(16) Bytes16 {
  uint32_t words[4];
};

#ifdef __CUDACC__

// Four 8x8 matrices of 16-bit values: lane l gives the address of row l % 8 of matrix l / 8 and
// gets elements 2 * (l % 4) and the next of row l / 4 of each.
SLUICE_DEVICE void LoadMatrices(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// The same of the transposed matrices.
SLUICE_DEVICE void LoadMatricesTransposed(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// c[16, 8] += a[16, 16] * b[16, 8], bf16 into fp32. With g = lane / 4 and t = lane % 4 a lane holds
// of a: rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8 (and the next column each);
// of b: column g at rows 2t and 2t + 8 (and the next); of c: row g at 2t, 2t + 1, row g + 8 too.
SLUICE_DEVICE void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two values to bf16, rounded to nearest even, the first in the low half.
SLUICE_DEVICE uint32_t PackBFloat16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

SLUICE_DEVICE float WidenBFloat16(uint16_t value) {
  return __uint_as_float(static_cast<uint32_t>(value) << 16);
}

// 2^x, within 2 ulp; denormal results are zero.
SLUICE_DEVICE float FastExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x, within 1 ulp; of denormal values infinite, and a denormal result is zero.
SLUICE_DEVICE float FastReciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// x, but the compiler does not see so: what is made of it in a loop is made there each time, and
// holds no registers outside.
SLUICE_DEVICE uint32_t Fresh(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

// The value of the lane whose number differs in the bits of `mask`.
SLUICE_DEVICE float ShuffleXor(float value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFF, value, mask);
}

// Whether any lane of the warp says so.
SLUICE_DEVICE bool AnyLane(bool value) { return __any_sync(0xFFFFFFFF, value); }

SLUICE_DEVICE void SyncBlock() { __syncthreads(); }
SLUICE_DEVICE void SyncWarp() { __syncwarp(); }

// Where this thread is.
SLUICE_DEVICE int Thread() { return static_cast<int>(threadIdx.x); }
SLUICE_DEVICE int64_t BlockX() { return Fresh(blockIdx.x); }
SLUICE_DEVICE int BlockY() { return static_cast<int>(blockIdx.y); }
SLUICE_DEVICE int BlocksY() { return static_cast<int>(gridDim.y); }

#else

void LoadMatrices(uint32_t (&to)[4], uint32_t row);
void LoadMatricesTransposed(uint32_t (&to)[4], uint32_t row);
void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
uint32_t PackBFloat16(float low, float high);
float WidenBFloat16(uint16_t value);
float FastExp2(float x);
float FastReciprocal(float x);
inline uint32_t Fresh(uint32_t x) { return x; }
float ShuffleXor(float value, int mask);
bool AnyLane(bool value);
void SyncBlock();
void SyncWarp();
int Thread();
int64_t BlockX();
int BlockY();
int BlocksY();

#endif

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_PRIMITIVES_CUH_
