#include "models/device/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// MemAvailable of /proc/meminfo, or -1 where the system does not say.
int64_t AvailableBytes() {
  std::ifstream info("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  while (info >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    info.ignore(256, '\n');
  }
  return -1;
}

}  // namespace

absl::Status CheckHostMemory(int64_t bytes) {
  const int64_t available = AvailableBytes();
  if (available < 0 || bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%.2f GiB are needed and this machine has %.2f GiB available; take a smaller model, smaller "
      "micro-batches or --recompute full",
      static_cast<double>(bytes) / kGiB, static_cast<double>(available) / kGiB));
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
