#ifndef SLUICE_MODELS_KERNELS_DROPOUT_MASK_H_
#define SLUICE_MODELS_KERNELS_DROPOUT_MASK_H_

#include <Random123/philox.h>

#include <cstdint>

namespace sluice {

// Which values a dropout keeps (Srivastava et al. 2014): a part of an endless row of random numbers
// (Philox, Salmon et al. 2011), so that it can be drawn again, wherever and in whatever pieces.
struct DropoutMask {
  uint64_t seed = 0;
  uint64_t stream = 0;     // of the seed's rows, this one
  uint64_t first = 0;      // number of the first value
  uint32_t threshold = 0;  // below it a value is dropped: 2^32 times the share that is
  float scale = 1;         // of those that are kept

  // What value `i` is multiplied by. `drawn` holds the numbers of one block of 4 between calls, and
  // `block` which one; before the first call no block (~0).
  R123_CUDA_DEVICE inline float Factor(uint64_t i, uint64_t* block,
                                       r123::Philox4x32::ctr_type* drawn) const {
    const uint64_t at = first + i;
    if (at / 4 != *block) {
      *block = at / 4;
      const r123::Philox4x32::ctr_type counter = {
          {static_cast<uint32_t>(*block), static_cast<uint32_t>(*block >> 32),
           static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
      const r123::Philox4x32::key_type key = {
          {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
      *drawn = r123::Philox4x32()(counter, key);
    }
    return (*drawn)[at % 4] < threshold ? 0.0f : scale;
  }
};

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_DROPOUT_MASK_H_
