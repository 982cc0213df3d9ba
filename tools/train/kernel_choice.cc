#include "tools/train/kernel_choice.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "models/files/positioned_file.h"
#include "models/kernels/cuda/products/algorithms.h"
#include "tools/files.h"

namespace sluice {

absl::StatusOr<const Kernels*> KernelsOf(const KernelChoice& choice) {
  if (!choice.cuda) {
    if (!choice.algorithms.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--algorithms ", choice.algorithms,
                                                     " are of GPUs; they need --device cuda"));
    }
    if (choice.attention == CudaAttention::kSluice)
      return &CpuKernels(choice.master_weights.value_or(MasterWeights::kWhole));
    return absl::InvalidArgumentError(
        "--attention cudnn is a choice that GPUs have; it needs --device cuda");
  }
  if (choice.master_weights == MasterWeights::kWhole) {
    return absl::InvalidArgumentError(
        "--master-weights whole is a choice that CPUs have; GPUs always split, leave it out");
  }
  const absl::Status own = PrepareCudaKernels();
  if (!own.ok()) return absl::Status(own.code(), absl::StrCat("--device cuda: ", own.message()));
  const absl::Status all = PrepareCudaKernels(choice.attention);
  if (!all.ok())
    return absl::Status(all.code(), absl::StrCat("--attention cudnn: ", all.message()));
  return &CudaKernels(choice.attention);
}

absl::StatusOr<std::string> TakeAlgorithms(const std::string& file,
                                           const std::set<std::string>& gpus) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file, kMostJsonBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<ProductAlgorithms> algorithms = ParseAlgorithms(*text, file);
  if (!algorithms.ok()) return algorithms.status();
  for (const std::string& gpu : gpus) {
    const absl::Status used = UseAlgorithms(*algorithms, gpu);
    if (!used.ok()) {
      return absl::Status(used.code(), absl::StrCat("--algorithms ", file, ": ", used.message()));
    }
  }
  // How long they took decides no bit.
  for (ProductAlgorithm& product : algorithms->products)
    product.seconds = product.first_seconds = 0;
  const std::string choice = FormatAlgorithms(*algorithms);
  return absl::StrCat(absl::Hex(XXH3_64bits(choice.data(), choice.size()), absl::kZeroPad16));
}

absl::Status CheckModel(const KernelChoice& choice, DType dtype, const ModelSpec& spec) {
  if (!choice.cuda || spec.decoder() == nullptr) return absl::OkStatus();
  const AttentionShape shape = {.heads = spec.decoder()->heads,
                                .kv_heads = spec.decoder()->key_value_heads(),
                                .width = spec.decoder()->head_width(),
                                .window = spec.decoder()->window,
                                .soft_cap = spec.decoder()->attention_soft_cap,
                                .dtype = dtype};
  absl::Status own = CheckCudaAttention(shape);
  if (!own.ok() || choice.attention == CudaAttention::kSluice) return own;
  return CheckCudnnAttention(shape);
}

}  // namespace sluice
