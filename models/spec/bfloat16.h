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

// An fp32 in two parts of which it can be made again, bit by bit: the nearest bf16 (halves away from
// zero) and the low half of its own bits. NaN becomes one whose low half is 0.
struct SplitFloat {
  uint16_t high = 0;
  uint16_t low = 0;

  static SplitFloat Of(float value) {
    const auto bits = std::isnan(value) ? 0x7fc00000U : std::bit_cast<uint32_t>(value);
    return {static_cast<uint16_t>((bits + 0x8000U) >> 16U), static_cast<uint16_t>(bits)};
  }
  // A low half from 0x8000 on says that the bf16 lies above the value.
  float value() const {
    const uint32_t above = (low & 0x8000U) << 1U;
    return std::bit_cast<float>((uint32_t{high} << 16U) - above + low);
  }
  friend bool operator==(const SplitFloat&, const SplitFloat&) = default;
};

// Where the low halves of elements first ... first + count - 1 of a tensor are kept; those of the
// others are kept elsewhere.
struct LowHalves {
  uint16_t* values = nullptr;
  int64_t first = 0;
  int64_t count = 0;
};

// Elements first ... first + count - 1 of a tensor whose high halves begin at `high`.
inline void SplitFloats(int64_t first, int64_t count, const float* from, uint16_t* high,
                        const LowHalves& low) {
  for (int64_t i = 0; i < count; ++i) {
    const SplitFloat parts = SplitFloat::Of(from[i]);
    const int64_t at = first + i;
    high[at] = parts.high;
    if (at >= low.first && at < low.first + low.count) low.values[at - low.first] = parts.low;
  }
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_BFLOAT16_H_
