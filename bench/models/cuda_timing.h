#ifndef SLUICE_BENCH_MODELS_CUDA_TIMING_H_
#define SLUICE_BENCH_MODELS_CUDA_TIMING_H_

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "models/device/device.h"
#include "models/spec/dtype.h"

// What the benchmarks of CUDA's kernels share. Errors end the program.
namespace sluice {

[[noreturn]] void Fail(const absl::Status& status);

template <class T>
T OrFail(absl::StatusOr<T> result) {
  if (!result.ok()) Fail(result.status());
  return *std::move(result);
}

// n values between -1 and 1, of the device's memory: numbers that change as a model's do keep the
// clocks as low as it does.
DeviceMemory RandomTensor(Device& device, Stream stream, DType dtype, int64_t n);

// The least time of several that the device takes for what `run` queues, in seconds.
double Seconds(Device& device, Stream stream, const std::function<void()>& run);

}  // namespace sluice

#endif  // SLUICE_BENCH_MODELS_CUDA_TIMING_H_
