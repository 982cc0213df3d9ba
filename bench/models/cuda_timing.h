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

// Shared by the benchmarks of CUDA's kernels. Errors end the program.
namespace sluice {

[[noreturn]] void Fail(const absl::Status& status);

template <class T>
T OrFail(absl::StatusOr<T> result) {
  if (!result.ok()) Fail(result.status());
  return *std::move(result);
}

// n values between -1 and 1 in the device's memory: with values that vary as in a model, the clocks
// are as low as in training.
DeviceMemory RandomTensor(Device& device, Stream stream, DType dtype, int64_t n);

// The shortest of several times that the device takes for the work that `run` queues, in seconds.
double Seconds(Device& device, Stream stream, const std::function<void()>& run);

}  // namespace sluice

#endif  // SLUICE_BENCH_MODELS_CUDA_TIMING_H_
