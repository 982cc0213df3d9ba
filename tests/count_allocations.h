#ifndef SLUICE_TESTS_COUNT_ALLOCATIONS_H_
#define SLUICE_TESTS_COUNT_ALLOCATIONS_H_

#include <cstdint>

namespace sluice {

// Linking count_allocations.cc replaces malloc for the whole binary, shared libraries included.
// Under a sanitizer, which owns malloc, nothing is counted.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCountsAllocations = false;
#else
inline constexpr bool kCountsAllocations = true;
#endif

struct Allocations {
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t largest = 0;
};

// Of all threads.
void ResetAllocations();
// Since the last reset.
Allocations CountedAllocations();

}  // namespace sluice

#endif  // SLUICE_TESTS_COUNT_ALLOCATIONS_H_
