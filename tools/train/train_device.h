#ifndef SLUICE_TOOLS_TRAIN_TRAIN_DEVICE_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_DEVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/device_group.h"
#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_memory.h"
#include "models/device/device.h"
#include "models/device/device_allocator.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/train/trainer.h"

namespace sluice {

// Opens device `number` of those that this process sees; the device allocates its memory with
// `allocator`.
using OpenDevice = std::function<absl::StatusOr<std::unique_ptr<Device>>(
    int number, const DeviceAllocator& allocator)>;

// Whether the arenas of `ranks` fit into what is free of the device, and `freed` bytes that will be; exit
// code 3 where they do not.
absl::Status CheckDeviceMemory(const RunPlan& plan, const std::vector<int>& ranks,
                               const Device& device, int64_t freed = 0);

// The devices of the ranks of one process, and the group that connects them.
class RunDevices {
 public:
  // Ranks 0 .. world_size - 1 of `plan` are threads of this process; they share `count` devices
  // evenly, neighbours on one device, and their messages are copies. Errors are those of `open`;
  // exit code 3 where the arenas do not fit into a device's memory.
  static absl::StatusOr<std::unique_ptr<RunDevices>> ForThreads(const RunPlan& plan, int count,
                                                                const OpenDevice& open);

  // `ranks`: the ranks of the plan that are threads of this process, or the one rank that it is.
  // Each has its own device as far as `count` devices, from number `first` on, are enough. Tensors
  // are sent over NCCL, in memory that NCCL allocates where it can. Errors as above; where two
  // ranks get one device, the run ends when they connect.
  static absl::StatusOr<std::unique_ptr<RunDevices>> OverNccl(const RunPlan& plan,
                                                              const std::vector<int>& ranks,
                                                              int first, int count,
                                                              const OpenDevice& open,
                                                              const NcclOptions& options);

  // Of OverNccl, once the ranks of this process train by another plan, with other messages.
  void Reconnect(const RunPlan& plan);

  // For TrainOptions::devices; the result uses this object.
  const std::vector<RankDevice>& ranks() const { return ranks_; }

 private:
  RunDevices() = default;
  // Opens each device of `ranks` once, and checks that their arenas fit. Their memory is allocated
  // by NCCL unless that is null.
  absl::Status Open(const RunPlan& plan, const std::vector<int>& ranks,
                    const std::vector<int>& numbers, const OpenDevice& open, NcclApi* nccl);

  std::unique_ptr<DeviceGroup> group_;                 // connects ranks that are threads
  NcclOptions nccl_;                                   // else
  std::vector<int> numbers_;                           // [rank of this process] its device's
  std::map<int, std::unique_ptr<NcclMemory>> memory_;  // [number]
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<RankDevice> ranks_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_DEVICE_H_
