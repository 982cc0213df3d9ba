#ifndef SLUICE_TESTS_SANITIZERS_H_
#define SLUICE_TESTS_SANITIZERS_H_

#include <cstddef>
#include <vector>

// Whether AddressSanitizer or ThreadSanitizer watches: GCC says so by a macro, clang by a feature.
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define SLUICE_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define SLUICE_THREAD_SANITIZER 1
#endif
#endif

namespace sluice {

#if defined(SLUICE_ADDRESS_SANITIZER) || defined(SLUICE_THREAD_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Trials of a property: all of them, or under sanitizers, which make them many times slower, the
// first few.
constexpr int Trials(int all, int sanitized) { return kSanitized ? sanitized : all; }

// Cases that combine every value of several parameters: all of them, or under sanitizers every
// `step`-th. With a step that shares no factor with the number of values of any parameter, each
// value stays in.
template <typename Case>
std::vector<Case> Sample(std::vector<Case> all, size_t step) {
  if (!kSanitized) return all;
  std::vector<Case> some;
  for (size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_SANITIZERS_H_
