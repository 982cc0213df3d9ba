#include "tools/train/kernel_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "tools/flag_values.h"

namespace sluice {

void AddDeviceFlag(CLI::App& command, const std::string& group, KernelFlags* flags) {
  command.add_option("--device", flags->device, "Where the kernels run: cpu or cuda")
      ->capture_default_str()
      ->group(group);
}

void AddKernelFlags(CLI::App& command, const std::string& group, KernelFlags* flags) {
  AddDeviceFlag(command, group, flags);
  CheckAttention(
      command.add_option("--attention", flags->attention,
                         "Attention on a GPU: by sluice's own kernels, or by cuDNN's (bf16 only)"))
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--algorithms", flags->algorithms,
          "A file of `sluice profile --tune`: cuBLASLt's fastest algorithm for each product "
          "of matrices. The bits of a run depend on it")
      ->option_text("FILE")
      ->group(group);
}

absl::StatusOr<KernelChoice> ChoiceOf(const KernelFlags& flags) {
  if (flags.device != "cpu" && flags.device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", flags.device, ": expected cpu or cuda"));
  }
  return KernelChoice{
      .cuda = flags.device == "cuda",
      .attention = ParseCudaAttention(flags.attention).value_or(CudaAttention::kSluice),
      .algorithms = flags.algorithms};
}

}  // namespace sluice
