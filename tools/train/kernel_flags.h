#ifndef SLUICE_TOOLS_TRAIN_KERNEL_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_KERNEL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/kernels/kernels.h"
#include "models/spec/model_spec.h"

namespace sluice {

// Whose kernels compute.
struct KernelFlags {
  std::string device = "cpu";        // or "cuda"
  std::string attention = "sluice";  // or "cudnn", on a GPU
};
// Help goes to `group`.
void AddKernelFlags(CLI::App& command, const std::string& group, KernelFlags* flags);

// The kernels that are asked for, ready to be planned with; no GPU is needed for that.
// InvalidArgument for a name that there is not, or for what the CPU has no choice of;
// FailedPrecondition or NotFound where this build or machine cannot run them.
absl::StatusOr<const Kernels*> KernelsOf(const KernelFlags& flags);

// InvalidArgument where these kernels have a limit that the model is beyond.
absl::Status CheckModel(const KernelFlags& flags, DType dtype, const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_KERNEL_FLAGS_H_
