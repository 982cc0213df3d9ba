// What models/kernels/cuda/attention/attention.h declares of launches, on the CPU.
#include "tests/models/kernels/cuda_emulation/attention_launch.h"

#include "models/kernels/cuda/attention/attention.h"

namespace sluice::cuda::attention {

using emulation::AttentionLauncher;
using emulation::OnStream;

void LaunchTileForward(const AttentionArguments& args, void* stream) {
  OnStream(stream, [args] { ForwardByTiles(args, AttentionLauncher{args}); });
}

void LaunchTileBackward(const AttentionArguments& args, void* stream) {
  OnStream(stream, [args] { BackwardByTiles(args, AttentionLauncher{args}); });
}

void LaunchPlainForward(DType dtype, const AttentionArguments& args, void* stream) {
  OnStream(stream, [dtype, args] {
    const AttentionLauncher launch{args};
    dtype == DType::kBFloat16 ? ForwardPlain<uint16_t>(args.width, launch)
                              : ForwardPlain<float>(args.width, launch);
  });
}

void LaunchPlainBackward(DType dtype, const AttentionArguments& args, void* stream) {
  OnStream(stream, [dtype, args] {
    const AttentionLauncher launch{args};
    dtype == DType::kBFloat16 ? BackwardPlain<uint16_t>(args.width, launch)
                              : BackwardPlain<float>(args.width, launch);
  });
}

}  // namespace sluice::cuda::attention
