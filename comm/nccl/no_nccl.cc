#include "comm/nccl/nccl_api.h"

namespace sluice {

absl::StatusOr<NcclApi*> LoadNccl() {
  return absl::FailedPreconditionError(
      "--transport nccl: this build was made without CUDA, or without NCCL's header; where nvcc "
      "and "
      "nccl.h are, configure with -DSLUICE_CUDA=ON");
}

}  // namespace sluice
