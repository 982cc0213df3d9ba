#include "tools/train/kernel_flags.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {
namespace {

CudaAttention AttentionOf(const KernelFlags& flags) {
  return flags.attention == "cudnn" ? CudaAttention::kCudnn : CudaAttention::kSluice;
}

}  // namespace

void AddKernelFlags(CLI::App& command, const std::string& group, KernelFlags* flags) {
  command.add_option("--device", flags->device, "cpu or cuda")->capture_default_str()->group(group);
  command
      .add_option("--attention", flags->attention,
                  "A GPU's attention: sluice's kernels, or cuDNN's (bf16)")
      ->check(CLI::IsMember({"sluice", "cudnn"}))
      ->capture_default_str()
      ->group(group);
}

absl::StatusOr<const Kernels*> KernelsOf(const KernelFlags& flags) {
  if (flags.device != "cpu" && flags.device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", flags.device, ": expected cpu or cuda"));
  }
  if (flags.device == "cpu") {
    if (AttentionOf(flags) == CudaAttention::kSluice) return &CpuKernels();
    return absl::InvalidArgumentError(
        "--attention cudnn is a choice that GPUs have; it needs --device cuda");
  }
  const absl::Status own = PrepareCudaKernels();
  if (!own.ok()) return absl::Status(own.code(), absl::StrCat("--device cuda: ", own.message()));
  const absl::Status all = PrepareCudaKernels(AttentionOf(flags));
  if (!all.ok())
    return absl::Status(all.code(), absl::StrCat("--attention cudnn: ", all.message()));
  return &CudaKernels(AttentionOf(flags));
}

absl::Status CheckModel(const KernelFlags& flags, DType dtype, const ModelSpec& spec) {
  if (flags.device != "cuda" || spec.gpt() == nullptr) return absl::OkStatus();
  const int64_t dim = spec.gpt()->dim, heads = std::max(spec.gpt()->heads, 1);
  if (dim / heads > kWidestCudaHead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device cuda: heads of ", dim / heads, " values; attention there takes at most ",
        kWidestCudaHead, "; take more heads, or --device cpu"));
  }
  if (AttentionOf(flags) == CudaAttention::kSluice) return absl::OkStatus();
  return CheckCudnnAttention({.dim = dim, .heads = heads, .dtype = dtype});
}

}  // namespace sluice
