#ifndef SLUICE_MODELS_SPEC_BFLOAT16_H_
#define SLUICE_MODELS_SPEC_BFLOAT16_H_

#include <bit>
#include <cmath>
#include <cstdint>

// bf16 in the host's memory: the high half of an fp32.
namespace sluice {

// To the nearest, ties to even; NaN stays one.
inline uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
// Exact.
inline float FromBFloat16(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }

// Of `count` values.
inline void ToBFloat16(int64_t count, const float* from, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ToBFloat16(from[i]);
}
inline void FromBFloat16(int64_t count, const uint16_t* from, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = FromBFloat16(from[i]);
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_BFLOAT16_H_
