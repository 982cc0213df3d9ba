#ifndef SLUICE_TOOLS_TRAIN_KERNEL_CHOICE_H_
#define SLUICE_TOOLS_TRAIN_KERNEL_CHOICE_H_

#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/kernels.h"
#include "models/spec/dtype.h"
#include "models/spec/model_spec.h"

namespace sluice {

// Which kernels compute.
struct KernelChoice {
  bool cuda = false;  // the kernels of a GPU, otherwise those of the CPU
  CudaAttention attention = CudaAttention::kSluice;
  std::optional<MasterWeights> master_weights = {};  // usual: whole on a CPU, split on a GPU
  std::string algorithms = {};  // the file of products' algorithms; empty: the library's first ones
};

// The kernels that were chosen, usable for planning; that needs no GPU. InvalidArgument for a
// choice that the device does not have; FailedPrecondition or NotFound where this build or machine
// cannot run them.
absl::StatusOr<const Kernels*> KernelsOf(const KernelChoice& choice);

// Lets this process's products on GPUs of these names ("NVIDIA H200") take the algorithms of `file`.
// Returns a name of the choice, which files with other algorithms do not have. Errors of reading the
// file, and those of UseAlgorithms.
absl::StatusOr<std::string> TakeAlgorithms(const std::string& file,
                                           const std::set<std::string>& gpus);

// InvalidArgument where the model exceeds a limit of these kernels. Requires a model that validates.
absl::Status CheckModel(const KernelChoice& choice, DType dtype, const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_KERNEL_CHOICE_H_
