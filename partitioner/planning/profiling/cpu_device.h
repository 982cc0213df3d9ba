#ifndef SLUICE_PARTITIONER_PLANNING_PROFILING_CPU_DEVICE_H_
#define SLUICE_PARTITIONER_PLANNING_PROFILING_CPU_DEVICE_H_

#include "absl/status/statusor.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "partitioner/costs/device.h"

namespace sluice {

// One core of this machine, measured in some 50 ms: the rate of the model's widest product through
// the kernel library, and of copying memory. Each of `devices` stages may use its share of the
// machine's memory. ResourceExhausted where there is no memory or thread to measure with.
absl::StatusOr<DeviceSpec> MeasureCpu(const ModelSpec& spec, const BatchShape& batch, DType dtype,
                                      int devices);

// The way between two threads of this process: half a round trip of a small message, and the rate
// of large ones. ResourceExhausted as above.
absl::StatusOr<Link> MeasureInProcessLink();

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PROFILING_CPU_DEVICE_H_
