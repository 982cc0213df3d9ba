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

// How a GPU is given its kernels: as training does without being asked, or with --no-cuda-graphs.
enum class Queueing { kGraphs, kOneByOne };

// Between the end of a kernel and the begin of the next, on an H200. One by one: the median of a
// step. In a graph: what is left of it, since a step of GPT-2 124M with graphs took 1.44 ms less
// (bench/results/gpu_train_h200.json, "tuned, graphs" beside "tuned"), 0.54 us for each of its 2655
// launches, and one of Qwen3-0.6B 4.9 ms, 0.7 us for each of some 7000.
constexpr double GapSeconds(Queueing queueing) {
  return queueing == Queueing::kGraphs ? 0.9e-6 : 1.5e-6;
}

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ROOFLINE_KERNEL_RATES_H_
