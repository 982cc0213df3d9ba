#ifndef SLUICE_MODELS_SPEC_CUDA_ATTENTION_H_
#define SLUICE_MODELS_SPEC_CUDA_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

// Whose kernels compute attention on a GPU. They give different bits, and need other work areas.
enum class CudaAttention : uint8_t {
  kSluice,
  kCudnn,  // NVIDIA's, with wgmma on Hopper: see CheckCudnnAttention (models/kernels/cuda_kernels.h)
};

constexpr const char* CudaAttentionName(CudaAttention attention) {
  return attention == CudaAttention::kCudnn ? "cudnn" : "sluice";
}
constexpr std::optional<CudaAttention> ParseCudaAttention(std::string_view name) {
  for (const CudaAttention attention : {CudaAttention::kSluice, CudaAttention::kCudnn}) {
    if (name == CudaAttentionName(attention)) return attention;
  }
  return std::nullopt;
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_CUDA_ATTENTION_H_
