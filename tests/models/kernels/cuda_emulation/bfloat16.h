#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_BFLOAT16_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_BFLOAT16_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace sluice::emulation {

// As CUDA rounds: to nearest, ties to even; every NaN becomes the same.
inline uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_BFLOAT16_H_
