#ifndef SLUICE_PIPELINE_STATE_ARENA_H_
#define SLUICE_PIPELINE_STATE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "models/device/device.h"

namespace sluice {

// All the tensor memory of one rank: one allocation, made before step 0, zeroed.
class Arena {
 public:
  // Errors are the device's.
  static absl::StatusOr<Arena> Allocate(Device& device, int64_t bytes) {
    absl::StatusOr<DeviceMemory> memory = device.Allocate(bytes);
    if (!memory.ok()) return memory.status();
    return Arena(*std::move(memory));
  }

  int64_t bytes() const { return memory_.bytes(); }
  template <typename T = void>
  T* at(int64_t offset) const {
    return static_cast<T*>(static_cast<void*>(memory_.data() + offset));
  }

 private:
  explicit Arena(DeviceMemory memory) : memory_(std::move(memory)) {}

  DeviceMemory memory_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_ARENA_H_
