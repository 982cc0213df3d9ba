#ifndef SLUICE_MODELS_SPEC_DTYPE_H_
#define SLUICE_MODELS_SPEC_DTYPE_H_

#include <cstdint>

namespace sluice {

// Element types. Activations are kFloat32 or kBFloat16 (the run's compute type); master weights,
// weight gradients and optimizer state are always kFloat32; tokens and labels are kInt32.
enum class DType : uint8_t { kFloat32, kBFloat16, kInt32 };

constexpr int64_t SizeOf(DType dtype) { return dtype == DType::kBFloat16 ? 2 : 4; }
constexpr const char* DTypeName(DType dtype) {
  return dtype == DType::kFloat32 ? "fp32" : dtype == DType::kBFloat16 ? "bf16" : "int32";
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_DTYPE_H_
