#include "partitioner/planning/roofline/reserved_addresses.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<ReservedAddresses> ReservedAddresses::Reserve(int64_t bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* const range =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no range of ", size, " addresses is left for the tensors of a layer (no ",
                     "memory is used); expected a smaller micro-batch, or a higher limit on ",
                     "address space (ulimit -v)"));
  }
  return ReservedAddresses({static_cast<std::byte*>(range), Unmap{size}});
}

void ReservedAddresses::Unmap::operator()(std::byte* range) const { munmap(range, bytes); }

int64_t ReservedAddresses::Rounded(int64_t bytes) {
  constexpr int64_t kAlignment = 256;
  return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

void* ReservedAddresses::Take(int64_t bytes) {
  std::byte* const at = range_.get() + taken_;
  taken_ += Rounded(bytes);
  assert(static_cast<size_t>(taken_) <= range_.get_deleter().bytes);
  return at;
}

}  // namespace sluice
