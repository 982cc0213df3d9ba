#include "tests/models/twins/reference_values.h"

#include <cmath>
#include <cstring>

namespace sluice::reference {
namespace {

uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  const uint32_t tie_to_even = (bits >> 16) & 1u;
  return static_cast<uint16_t>((bits + 0x7fffu + tie_to_even) >> 16);
}

}  // namespace

void Set(DType dtype, void* x, int64_t i, double value) {
  if (dtype == DType::kBFloat16) {
    static_cast<uint16_t*>(x)[i] = ToBFloat16(static_cast<float>(value));
  } else {
    static_cast<float*>(x)[i] = static_cast<float>(value);
  }
}

void Poison(void* data, size_t bytes) {
  constexpr int kAllOnes = 0xff;
  if (bytes > 0) std::memset(data, kAllOnes, bytes);
}

}  // namespace sluice::reference
