#include "models/device/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

}  // namespace

absl::Status CheckHostMemory(int64_t bytes, const HostMemory& memory) {
  if (memory.available_bytes < 0 || bytes <= memory.available_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%.2f GiB are needed and %s %.2f GiB available; take a smaller model, smaller "
      "micro-batches or --recompute full%s",
      static_cast<double>(bytes) / kGiB,
      memory.in_group ? "the memory limit of this process (a container's or a job's) leaves"
                      : "this machine has",
      static_cast<double>(memory.available_bytes) / kGiB,
      memory.in_group ? ", or raise the limit" : ""));
}

absl::StatusOr<DeviceMemory> AllocateHostMemory(int64_t bytes) {
  const int64_t size = std::max<int64_t>(bytes, 1);
  if (absl::Status status = CheckHostMemory(size); !status.ok()) return status;
  void* memory = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", size, " bytes: ", std::strerror(errno)));
  }
  madvise(memory, static_cast<size_t>(size),
          MADV_HUGEPAGE);  // a hint; fewer TLB misses where the system follows it
  return DeviceMemory(static_cast<std::byte*>(memory), size, [size](std::byte* data) {
    if (data != nullptr) munmap(data, static_cast<size_t>(size));
  });
}

}  // namespace sluice
