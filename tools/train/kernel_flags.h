#ifndef SLUICE_TOOLS_TRAIN_KERNEL_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_KERNEL_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/train/kernel_choice.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// Which kernels compute, as it was typed.
struct KernelFlags {
  std::string device = "cpu";        // or "cuda"
  std::string attention = "sluice";  // or "cudnn", on a GPU
  std::string algorithms = {};       // the file of --algorithms; empty: none
};
// The options are listed under `group` in --help: --device alone, and all.
void AddDeviceFlag(CLI::App& command, const std::string& group, KernelFlags* flags);
void AddKernelFlags(CLI::App& command, const std::string& group, KernelFlags* flags);

// InvalidArgument for an unknown name.
absl::StatusOr<KernelChoice> ChoiceOf(const KernelFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_KERNEL_FLAGS_H_
