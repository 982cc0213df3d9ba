#ifndef SLUICE_MODELS_KERNELS_CPU_MATMUL_H_
#define SLUICE_MODELS_KERNELS_CPU_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "models/spec/dtype.h"

namespace sluice::cpu {

// Whether the processor multiplies pairs of bf16 values (AVX-512 BF16) or tiles of them (AMX), and
// oneDNN may (DNNL_MAX_CPU_ISA).
bool HasPairs();
bool HasTiles();
// Whether one of these is faster than to multiply the same values in fp32.
bool MultipliesBFloat16();

// c[m, n] = a[m, k] * b[k, n] (+ bias[n]) (+ residual[m, n]) (+ c), one oneDNN primitive.
struct MatmulShape {
  int64_t m = 0, k = 0, n = 0;
  DType a_dtype = DType::kFloat32, b_dtype = DType::kFloat32, c_dtype = DType::kFloat32;
  bool a_transposed = false;  // a is stored [k, m]
  bool b_transposed = false;  // b is stored [n, k]
  bool b_packed = false;      // b is in oneDNN's own layout, made by Pack()
  bool bias = false;          // fp32
  bool residual = false;      // of c's type, unless
  bool residual_fp32 = false;
  bool accumulate = false;  // adds to c
  // Elements from a row to the next, as a is stored, and b before it is packed; 0 where rows follow
  // each other.
  int64_t a_stride = 0, b_stride = 0;
};

// Creation throws dnnl::error where oneDNN has no such product: in bf16 there is one only where
// HasPairs, or slowly with any AVX-512. Any call throws std::bad_alloc where memory runs
// out. Keeps the number of OpenMP threads of the thread that created it. Not thread-safe. The
// scratchpad is the caller's.
class Matmul {
 public:
  // `packed_like`: another product whose packed b this one reads too.
  explicit Matmul(const MatmulShape& shape, const Matmul* packed_like = nullptr);

  size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  size_t packed_bytes() const { return packed_bytes_; }  // of b, where packed

  // Converts b from fp32 (stored as `b_transposed` says) into oneDNN's layout.
  void Pack(const float* b, void* packed);
  // `bias` and `residual` are ignored unless the shape has them.
  void Run(const void* a, const void* b, const float* bias, const void* residual, void* c,
           void* scratchpad);

 private:
  void PreparePacking(size_t bytes);

  MatmulShape shape_;
  size_t scratchpad_bytes_ = 0;
  size_t packed_bytes_ = 0;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  dnnl::reorder pack_;        // unless
  bool packs_pairs_ = false;  // PackPairs makes oneDNN's layout, at several times the speed
  // Set to the caller's buffers during a call; made once, so that a call allocates nothing.
  dnnl::memory a_, b_, c_, bias_, residual_, scratchpad_, unpacked_b_;
};

// The lengths of the parts in which a SummedMatmul takes a sum of `k` products: as equal as
// multiples of 64 can be, none longer than `longest`.
std::vector<int64_t> SumParts(int64_t k, int64_t longest);

// The same without bias and residual, a not transposed. Where the processor has tiles, a long sum
// of bf16 products is taken in parts, in fp32: of more than 65,536 to 76,000 at a time, which input
// gradients of vocabularies have, oneDNN 2.6 takes twice as long (seen on an Intel Xeon).
class SummedMatmul {
 public:
  explicit SummedMatmul(const MatmulShape& shape);

  size_t scratchpad_bytes() const;
  size_t packed_bytes() const;
  void Pack(const float* b, void* packed);
  void Run(const void* a, const void* b, void* c, void* scratchpad);

 private:
  struct Part {
    Matmul product;
    // Where its operands begin: a and packed b in bytes, b that is not packed in elements.
    size_t a = 0, packed_b = 0;
    int64_t b = 0;
  };

  size_t sums_bytes_ = 0;  // fp32 [m, n], at the beginning of the scratchpad
  bool b_packed_;
  int64_t b_bytes_;  // of an element of b that is not packed
  std::vector<Part> parts_;
};

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_MATMUL_H_
