#include "tests/count_allocations.h"

#include <atomic>
#include <cstddef>

#include "tests/sanitizers.h"

namespace {

std::atomic<int64_t> allocation_count{0};
std::atomic<int64_t> allocated_bytes{0};
std::atomic<int64_t> largest_allocation{0};

[[maybe_unused]] void Note(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  ++allocation_count;
  allocated_bytes += size;
  int64_t largest = largest_allocation.load();
  while (size > largest && !largest_allocation.compare_exchange_weak(largest, size)) {
  }
}

}  // namespace

#if !defined(SLUICE_ADDRESS_SANITIZER) && !defined(SLUICE_THREAD_SANITIZER)
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): glibc's own names for what is replaced here.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  Note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  Note(n * bytes);
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  Note(bytes);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  Note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  constexpr int kNoMemory = 12;
  *result = aligned_alloc(alignment, bytes);
  return *result == nullptr ? kNoMemory : 0;
}
}
#endif

namespace sluice {

void ResetAllocations() { allocation_count = allocated_bytes = largest_allocation = 0; }

Allocations CountedAllocations() {
  return {.count = allocation_count, .bytes = allocated_bytes, .largest = largest_allocation};
}

}  // namespace sluice
