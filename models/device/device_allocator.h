#ifndef SLUICE_MODELS_DEVICE_DEVICE_ALLOCATOR_H_
#define SLUICE_MODELS_DEVICE_DEVICE_ALLOCATOR_H_

#include <cstdint>
#include <functional>

namespace sluice {

// Allocates the memory of tensors instead of the device's own allocator, where a transport needs
// memory of another kind. Both functions are called with the device current, by any thread, and
// must outlive the device's memory.
struct DeviceAllocator {
  // Aligned to 256 bytes; null where it can allocate none, and the device then uses its own
  // allocator.
  std::function<void*(int64_t bytes)> allocate = nullptr;
  // Frees memory that `allocate` gave, once no queued work uses it any more.
  std::function<void(void*)> free = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_DEVICE_ALLOCATOR_H_
