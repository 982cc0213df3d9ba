#ifndef SLUICE_PIPELINE_RUN_TENSOR_HASHES_H_
#define SLUICE_PIPELINE_RUN_TENSOR_HASHES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Hashes of a rank's tensors, taken where they lie, in the order of its stream's work.
class TensorHashes {
 public:
  // Room for `most` hashes. `state` must outlive this. ResourceExhausted where the device has no
  // memory for them.
  absl::Status Open(const RankState& state, size_t most);

  // Forgets the hashes, which must not be under way.
  void Clear();
  // Hashes are numbered as tensors are added; Queue takes them.
  void Add(const void* data, int64_t bytes);
  // Queues the hashes of what has been added since the last call.
  void Queue();
  // Once the stream's work is done.
  uint64_t operator[](size_t number) const;

  size_t size() const { return tensors_.size(); }

 private:
  const RankState* state_ = nullptr;
  size_t most_ = 0;
  std::vector<HashedTensor> tensors_;
  size_t queued_ = 0;
  DeviceMemory parts_;
  DeviceMemory hashes_;  // that host and device reach
};

// Of several hashes, in order: 0 of none, and of one the same.
uint64_t HashAll(const std::vector<uint64_t>& hashes);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_TENSOR_HASHES_H_
