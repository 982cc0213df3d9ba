#ifndef SLUICE_TESTS_MODELS_KERNELS_REACHABLE_H_
#define SLUICE_TESTS_MODELS_KERNELS_REACHABLE_H_

#include <cstddef>
#include <vector>

namespace sluice {

// Memory that the host and the kernels under test reach, aligned to 64 bytes: the host's
// (reachable_host.cc), or what a GPU shares with it (cuda/reachable_gpu.cc).
void* AllocateReachable(size_t bytes);
void FreeReachable(void* memory);

template <class T>
struct ReachableAllocator {
  using value_type = T;
  ReachableAllocator() = default;
  template <class Other>
  ReachableAllocator(const ReachableAllocator<Other>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t n) { return static_cast<T*>(AllocateReachable(n * sizeof(T))); }
  void deallocate(T* memory, size_t) { FreeReachable(memory); }
  bool operator==(const ReachableAllocator&) const = default;
};
template <class T>
using Reachable = std::vector<T, ReachableAllocator<T>>;

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_KERNELS_REACHABLE_H_
