#ifndef SLUICE_PARTITIONER_PLANNING_PROFILING_DEVICE_LINK_H_
#define SLUICE_PARTITIONER_PLANNING_PROFILING_DEVICE_LINK_H_

#include "absl/status/statusor.h"
#include "models/device/device.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// The way between two ranks of this process on a device that queues its work, as stages on one GPU
// have it: half a round trip of a small message, and the rate of large ones, by the device's own
// clock. Errors are the device's.
absl::StatusOr<Link> MeasureDeviceLink(Device* device);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PROFILING_DEVICE_LINK_H_
