#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/kernels/cuda/attention/attention_arguments.h"
#include "models/kernels/kernels.h"
#include "models/spec/dtype.h"

namespace sluice::cuda {

// InvalidArgument for heads of more than 256 values (CheckCudaAttention). bf16 heads whose width is
// a multiple of 8 run on tensor cores where all tensors and rows are aligned to 16 bytes and there is
// no soft cap; everything else in fp32 arithmetic, slower by far.
// Needs no GPU before the first call.
absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape);

namespace attention {

// The kernels of either kind, put on a cudaStream_t. Backward fills args.statistics first.
void LaunchTileForward(const AttentionArguments& args, void* stream);
void LaunchTileBackward(const AttentionArguments& args, void* stream);
void LaunchPlainForward(DType dtype, const AttentionArguments& args, void* stream);
void LaunchPlainBackward(DType dtype, const AttentionArguments& args, void* stream);

}  // namespace attention
}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_H_
