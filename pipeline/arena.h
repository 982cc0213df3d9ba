#ifndef SLUICE_PIPELINE_ARENA_H_
#define SLUICE_PIPELINE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace sluice {

// ResourceExhausted when the machine has no `bytes` left; asked before any arena of a run is made,
// since memory counts as taken only once it is written.
absl::Status CheckAvailable(int64_t bytes);

// All the tensor memory of one rank: one allocation, made before step 0, zeroed.
class Arena {
 public:
  // ResourceExhausted as CheckAvailable says, since Linux would otherwise hand out pages that it
  // cannot back.
  static absl::StatusOr<Arena> Allocate(int64_t bytes);

  int64_t bytes() const { return bytes_; }
  std::byte* data() const { return memory_.get(); }
  template <typename T = void>
  T* at(int64_t offset) const {
    return static_cast<T*>(static_cast<void*>(memory_.get() + offset));
  }

 private:
  struct Unmap {
    int64_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  Arena(std::byte* memory, int64_t bytes) : bytes_(bytes), memory_(memory, Unmap{bytes}) {}

  int64_t bytes_;
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_ARENA_H_
