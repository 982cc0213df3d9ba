// What models/kernels/cuda/attention.h declares of launches, on the CPU.
#include "tests/models/kernels/cuda_emulation/attention_launch.h"

#include "models/kernels/cuda/attention.h"

namespace sluice::emulation {
uint64_t attention_seed = 0;
}  // namespace sluice::emulation

namespace sluice::cuda::attention {

using emulation::attention_seed;
using emulation::AttentionLauncher;

void LaunchTileForward(const AttentionArguments& args, void*) {
  ForwardByTiles(args.width, AttentionLauncher{args, attention_seed});
}

void LaunchTileBackward(const AttentionArguments& args, void*) {
  BackwardByTiles(args.width, AttentionLauncher{args, attention_seed});
}

void LaunchPlainForward(DType dtype, const AttentionArguments& args, void*) {
  const AttentionLauncher launch{args, attention_seed};
  dtype == DType::kBFloat16 ? ForwardPlain<uint16_t>(args.width, launch)
                            : ForwardPlain<float>(args.width, launch);
}

void LaunchPlainBackward(DType dtype, const AttentionArguments& args, void*) {
  const AttentionLauncher launch{args, attention_seed};
  dtype == DType::kBFloat16 ? BackwardPlain<uint16_t>(args.width, launch)
                            : BackwardPlain<float>(args.width, launch);
}

}  // namespace sluice::cuda::attention
