// Streams whose work is done before a call returns.
#include "tests/models/kernels/cuda_emulation/on_stream.h"

namespace sluice::emulation {

uint64_t launch_seed = 1;

void OnStream(void*, const std::function<void()>& work) { work(); }

}  // namespace sluice::emulation
