#ifndef SLUICE_MODELS_KERNELS_CPU_LINEAR_BYTES_H_
#define SLUICE_MODELS_KERNELS_CPU_LINEAR_BYTES_H_

#include <cstddef>
#include <cstdint>

#include "models/kernels/kernels.h"

namespace sluice::cpu {

// The largest tile that PortableLinear converts to fp32 at a time.
inline constexpr int64_t kTileRows = 128;
inline constexpr int64_t kTileColumns = 1024;

// Whether weights of another type than the product's are kept once, as they are stored but of the
// product's type, instead of packed for each of the two products that read them. So are narrow ones,
// as those of adapters: packing takes longer than it saves, and pads them to several times their
// size.
bool HasPlainCopy(const LinearShape& shape);

// Bytes of packed weights and of work areas on a CPU. They follow from the shape and the number of
// threads, not from the processor, so that a plan gives the same bytes on every machine. They are
// enough for PortableLinear, and for the products of oneDNN 2.6 with AVX-512 on one thread.
struct LinearBytes {
  // Of the weights, for the forward product; 0 where they have the type of the product.
  size_t forward_copy = 0;
  // For the product of the input gradient, stored behind the first copy; 0 where that serves both.
  size_t input_grad_copy = 0;
  size_t forward_work = 0;
  size_t input_grad_work = 0;
  size_t weight_grad_work = 0;

  size_t packed() const { return forward_copy + input_grad_copy; }
};
// Multiples of 64; a work area has one part per thread, all of them equally large.
LinearBytes BytesOf(const LinearShape& shape, int threads);

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_LINEAR_BYTES_H_
