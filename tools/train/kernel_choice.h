#ifndef SLUICE_TOOLS_TRAIN_KERNEL_CHOICE_H_
#define SLUICE_TOOLS_TRAIN_KERNEL_CHOICE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/kernels.h"
#include "models/spec/dtype.h"
#include "models/spec/model_spec.h"

namespace sluice {

// Whose kernels compute.
struct KernelChoice {
  bool cuda = false;  // a GPU's, else the CPU's
  CudaAttention attention = CudaAttention::kSluice;
};

// The kernels that are asked for, ready to be planned with; no GPU is needed for that.
// InvalidArgument for what the CPU has no choice of; FailedPrecondition or NotFound where this build
// or machine cannot run them.
absl::StatusOr<const Kernels*> KernelsOf(const KernelChoice& choice);

// InvalidArgument where these kernels have a limit that the model is beyond.
absl::Status CheckModel(const KernelChoice& choice, DType dtype, const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_KERNEL_CHOICE_H_
