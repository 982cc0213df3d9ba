#ifndef SLUICE_MODELS_SPEC_FLOAT16_H_
#define SLUICE_MODELS_SPEC_FLOAT16_H_

#include <bit>
#include <cmath>
#include <cstdint>

// IEEE 754 binary16 in the host's memory: 5 bits of exponent, 10 of the fraction.
namespace sluice {

// Exact: every half is an fp32.
inline float FromFloat16(uint16_t value) {
  const uint32_t sign = uint32_t{value & 0x8000u} << 16;
  const uint32_t exponent = (value >> 10) & 0x1f;
  const uint32_t fraction = value & 0x3ff;
  if (exponent == 0x1f) {  // infinity, NaN
    return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // subnormal, zero
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));  // bias 127 - 15
}

// To the nearest, ties to even: infinity from 65520 on; NaN stays one.
inline uint16_t ToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= std::bit_cast<uint32_t>(65520.0f)) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < std::bit_cast<uint32_t>(0x1p-14f)) {  // a multiple of the smallest half
    const float multiple = std::nearbyint(std::abs(value) * 0x1p24f);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(multiple));
  }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((magnitude - (112U << 23)) >> 13));
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_FLOAT16_H_
