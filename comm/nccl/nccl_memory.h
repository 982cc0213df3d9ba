#ifndef SLUICE_COMM_NCCL_NCCL_MEMORY_H_
#define SLUICE_COMM_NCCL_NCCL_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "absl/status/status.h"
#include "comm/nccl/nccl.h"
#include "models/device/device_allocator.h"

namespace sluice {

// One GPU's memory that NCCL itself allocates (ncclMemAlloc): once it is registered with a rank's
// edges, messages may move from it and into it without a copy in between.
class NcclMemory {
 public:
  explicit NcclMemory(NcclApi* nccl) : nccl_(*nccl) {}
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  // Gives such memory where the library has it, which not every one does. This must outlive what
  // comes from it.
  DeviceAllocator Allocator();

  // Registers all that is allocated now; `rank` must be gone before any of it is given back.
  absl::Status RegisterWith(NcclCommunicator* rank) const;

 private:
  void* Allocate(int64_t bytes);
  void Free(void* memory);

  NcclApi& nccl_;
  mutable std::mutex mutex_;
  std::map<void*, size_t> allocated_;  // bytes
};

}  // namespace sluice

#endif  // SLUICE_COMM_NCCL_NCCL_MEMORY_H_
