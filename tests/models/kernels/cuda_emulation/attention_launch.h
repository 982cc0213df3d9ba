#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_ATTENTION_LAUNCH_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_ATTENTION_LAUNCH_H_

#include <cstdint>

#include "models/kernels/cuda/attention/attention_kernels.cuh"
#include "tests/models/kernels/cuda_emulation/block.h"
#include "tests/models/kernels/cuda_emulation/on_stream.h"

namespace sluice::emulation {

// Stands where models/kernels/cuda/attention/attention_launch.cuh puts kernels on a stream.
struct AttentionLauncher {
  const cuda::attention::AttentionArguments& args;

  template <class Kernel>
  void operator()(Kernel) const {
    const auto grid = Kernel::Grid(args);
    RunGrid({.x = grid.x,
             .y = grid.y,
             .threads = Kernel::kThreads,
             .shared_bytes = static_cast<size_t>(Kernel::SharedBytes(args))},
            launch_seed, [this] { Kernel::Run(args); });
  }
};

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_ATTENTION_LAUNCH_H_
