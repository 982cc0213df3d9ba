#ifndef SLUICE_TESTS_COUNT_ALLOCATIONS_H_
#define SLUICE_TESTS_COUNT_ALLOCATIONS_H_

#include <cstdint>

#include "tests/sanitizers.h"

namespace sluice {

// Linking count_allocations.cc replaces malloc for the whole binary, shared libraries included.
// Under a sanitizer, which owns malloc, nothing is counted.
inline constexpr bool kCountsAllocations = !kSanitized;

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
