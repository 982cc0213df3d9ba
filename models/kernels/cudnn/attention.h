#ifndef SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_H_
#define SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/kernels/kernels.h"

namespace sluice::cudnn {

// Whether attention by cuDNN can run here: FailedPrecondition in a build without its headers, or
// where the library is too old; NotFound where it is missing. Needs no GPU.
absl::Status PrepareAttention();

// Attention by cuDNN's kernels on GPUs of compute capability 8.0 to 9.0: bf16 heads of at most 128
// values, a multiple of 8, tensors aligned to 16 bytes, without `starts`. Needs no GPU before
// Prepare, which compiles; errors are reported like those of a kernel. InvalidArgument for other
// shapes (CheckCudnnAttention), FailedPrecondition in a build without its headers.
absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape);

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_H_
