#include "models/kernels/cuda/attention/attention.h"
#include "models/kernels/cuda/attention/attention_launch.cuh"

namespace sluice::cuda::attention {

void LaunchPlainForward(DType dtype, const AttentionArguments& args, void* stream) {
  const StreamLauncher launch{args, static_cast<cudaStream_t>(stream)};
  dtype == DType::kBFloat16 ? ForwardPlain<uint16_t>(args.width, launch)
                            : ForwardPlain<float>(args.width, launch);
}

void LaunchPlainBackward(DType dtype, const AttentionArguments& args, void* stream) {
  const StreamLauncher launch{args, static_cast<cudaStream_t>(stream)};
  dtype == DType::kBFloat16 ? BackwardPlain<uint16_t>(args.width, launch)
                            : BackwardPlain<float>(args.width, launch);
}

}  // namespace sluice::cuda::attention
