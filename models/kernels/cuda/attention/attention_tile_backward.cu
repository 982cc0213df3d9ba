#include "models/kernels/cuda/attention/attention.h"
#include "models/kernels/cuda/attention/attention_launch.cuh"

namespace sluice::cuda::attention {

void LaunchTileBackward(const AttentionArguments& args, void* stream) {
  BackwardByTiles(args, StreamLauncher{args, static_cast<cudaStream_t>(stream)});
}

}  // namespace sluice::cuda::attention
