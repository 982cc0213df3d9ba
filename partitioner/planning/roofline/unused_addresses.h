#ifndef SLUICE_PARTITIONER_PLANNING_ROOFLINE_UNUSED_ADDRESSES_H_
#define SLUICE_PARTITIONER_PLANNING_ROOFLINE_UNUSED_ADDRESSES_H_

#include <algorithm>
#include <cstdint>

namespace sluice {

// Addresses for kernels that only look at where tensors lie, and never there. Nothing is reserved, so
// that any layer of any model has some, whatever a process may use.
class UnusedAddresses {
 public:
  // The next `bytes`, aligned to 256.
  template <typename T = void>
  T* Take(int64_t bytes) {
    const uintptr_t at = next_;
    const auto size = static_cast<uintptr_t>(std::max<int64_t>(bytes, 1));
    next_ += (size + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(at);  // NOLINT(performance-no-int-to-ptr): never followed
  }

 private:
  static constexpr uintptr_t kAlignment = 256;
  // Far from what a process usually has.
  uintptr_t next_ = uintptr_t{1} << 46U;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ROOFLINE_UNUSED_ADDRESSES_H_
