#ifndef SLUICE_MODELS_SPEC_DTYPE_H_
#define SLUICE_MODELS_SPEC_DTYPE_H_

#include <cstdint>
#include <string_view>

namespace sluice {

// Element types. Activations are kFloat32 or kBFloat16 (the run's compute type); gradients and
// moments are always kFloat32, and so are weights, but for matrices that are frozen, or trained and
// split, which may be kBFloat16; tokens and labels are kInt32.
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

// What a bf16 run keeps the matrices in that it trains. Whole: in fp32, of which products may read
// bf16 copies, laid out for them. Split: in the bf16 that products read, with the 16 bits that it
// lacks beside the optimizer's state (Kalamkar et al. 2020, "Split-SGD-BF16"): no copies, the same
// precision.
enum class MasterWeights : uint8_t { kWhole, kSplit };

constexpr const char* MasterWeightsName(MasterWeights master_weights) {
  return master_weights == MasterWeights::kSplit ? "split" : "whole";
}
// By its name. False for anything else.
constexpr bool ParseMasterWeights(std::string_view text, MasterWeights* master_weights) {
  for (MasterWeights known : {MasterWeights::kWhole, MasterWeights::kSplit}) {
    if (text != MasterWeightsName(known)) continue;
    *master_weights = known;
    return true;
  }
  return false;
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_DTYPE_H_
