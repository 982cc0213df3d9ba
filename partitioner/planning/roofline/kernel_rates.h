#ifndef SLUICE_PARTITIONER_PLANNING_ROOFLINE_KERNEL_RATES_H_
#define SLUICE_PARTITIONER_PLANNING_ROOFLINE_KERNEL_RATES_H_

#include "models/kernels/record/kernel_launch.h"
#include "partitioner/costs/device.h"

namespace sluice {

// Both of a device as its data sheet has it (DataSheetDevice), in seconds, of all that the entry
// counts as launches.

// The roofline (Williams et al. 2009): no less than the FLOPs at the peak of their type, and no less
// than the bytes at the memory's bandwidth.
double BoundSeconds(const KernelLaunch& launch, const DeviceSpec& sheet);

// What a kernel of that kind took on an H200, as a share of its bound; see kernel_rates.cc. That it
// reaches the same share of another device is an assumption. Without the gap to the next launch.
double ExpectedSeconds(const KernelLaunch& launch, const DeviceSpec& sheet);

// Between the end of a kernel and the begin of the next, where they are launched one by one: the
// median of a step on an H200. A GPU that replays a graph needs 0.1 us.
inline constexpr double kGapSeconds = 1.5e-6;

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ROOFLINE_KERNEL_RATES_H_
