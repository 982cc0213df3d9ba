#ifndef SLUICE_MODELS_SPEC_DTYPE_H_
#define SLUICE_MODELS_SPEC_DTYPE_H_

#include <cstdint>
#include <string_view>

namespace sluice {

// Element types. Activations are kFloat32 or kBFloat16 (the run's compute type); weights that are
// trained, their gradients and optimizer state are always kFloat32, frozen matrices that or
// kBFloat16; tokens and labels are kInt32.
enum class DType : uint8_t { kFloat32, kBFloat16, kInt32 };

constexpr int64_t SizeOf(DType dtype) { return dtype == DType::kBFloat16 ? 2 : 4; }
constexpr const char* DTypeName(DType dtype) {
  return dtype == DType::kFloat32 ? "fp32" : dtype == DType::kBFloat16 ? "bf16" : "int32";
}
// A compute type by its name, "fp32" or "bf16". False for anything else.
constexpr bool ParseDType(std::string_view text, DType* dtype) {
  for (DType known : {DType::kFloat32, DType::kBFloat16}) {
    if (text != DTypeName(known)) continue;
    *dtype = known;
    return true;
  }
  return false;
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_DTYPE_H_
