#ifndef SLUICE_PARTITIONER_PLANNING_ROOFLINE_RESERVED_ADDRESSES_H_
#define SLUICE_PARTITIONER_PLANNING_ROOFLINE_RESERVED_ADDRESSES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace sluice {

// Addresses without memory: whoever reads or writes there is stopped by the system. For kernels that
// only look at where tensors lie.
class ReservedAddresses {
 public:
  // ResourceExhausted where the process has no range that is so long.
  static absl::StatusOr<ReservedAddresses> Reserve(int64_t bytes);

  // The next `bytes` of the range, aligned to 256. Requires that so many are left.
  void* Take(int64_t bytes);
  template <typename T>
  T* Take(int64_t bytes) {
    return static_cast<T*>(Take(bytes));
  }
  // What Take uses up for this many bytes.
  static int64_t Rounded(int64_t bytes);

 private:
  struct Unmap {
    size_t bytes = 0;
    void operator()(std::byte* range) const;
  };
  explicit ReservedAddresses(std::unique_ptr<std::byte, Unmap> range) : range_(std::move(range)) {}

  std::unique_ptr<std::byte, Unmap> range_;
  int64_t taken_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ROOFLINE_RESERVED_ADDRESSES_H_
