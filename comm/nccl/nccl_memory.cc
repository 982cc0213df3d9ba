#include "comm/nccl/nccl_memory.h"

namespace sluice {

DeviceAllocator NcclMemory::Allocator() {
  return {.allocate = [this](int64_t bytes) { return Allocate(bytes); },
          .free = [this](void* memory) { Free(memory); }};
}

void* NcclMemory::Allocate(int64_t bytes) {
  void* memory = nullptr;
  const auto size = static_cast<size_t>(bytes);
  if (nccl_.Allocate(size, &memory) != NcclResult::kSuccess) return nullptr;
  const std::lock_guard lock(mutex_);
  allocated_.emplace(memory, size);
  return memory;
}

void NcclMemory::Free(void* memory) {
  {
    const std::lock_guard lock(mutex_);
    allocated_.erase(memory);
  }
  nccl_.Free(memory);
}

absl::Status NcclMemory::RegisterWith(NcclCommunicator* rank) const {
  std::map<void*, size_t> allocated;
  {
    const std::lock_guard lock(mutex_);
    allocated = allocated_;
  }
  for (const auto& [memory, bytes] : allocated) {
    if (absl::Status status = rank->Register(memory, bytes); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
