#ifndef SLUICE_BENCH_MODELS_GEMM_PEAK_H_
#define SLUICE_BENCH_MODELS_GEMM_PEAK_H_

#include <cstddef>

#include "models/spec/dtype.h"

namespace sluice {

// The peak of this core: the best of several runs of oneDNN's [1024, 1024] x [1024, 1024] with
// weights in its own layout, in FLOP/s. Every benchmark here is shown as a fraction of it.
double GemmPeak(DType dtype);

// The time that this thread was on a core, so that other programs of the machine affect it as
// little as possible.
double ThreadSeconds();

// A large buffer of small finite values, 64-byte aligned; std::free() it.
void* BenchBuffer(size_t bytes, DType dtype);

}  // namespace sluice

#endif  // SLUICE_BENCH_MODELS_GEMM_PEAK_H_
