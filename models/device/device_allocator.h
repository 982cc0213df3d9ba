#ifndef SLUICE_MODELS_DEVICE_DEVICE_ALLOCATOR_H_
#define SLUICE_MODELS_DEVICE_DEVICE_ALLOCATOR_H_

#include <cstdint>
#include <functional>

namespace sluice {

// Where a device takes tensors' memory from in place of its own: a transport may know a better
// kind. Both are called with the device current, by any thread, and outlive the device's memory.
struct DeviceAllocator {
  // Aligned to 256 bytes; null where there is none to be had, and the device then takes its own.
  std::function<void*(int64_t bytes)> allocate = nullptr;
  // Of what `allocate` gave, once nothing that is queued uses it any more.
  std::function<void(void*)> free = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_DEVICE_ALLOCATOR_H_
