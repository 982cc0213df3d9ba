#include "pipeline/run/tensor_hashes.h"

#include <cassert>
#include <utility>

#include "absl/types/span.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

constexpr auto kWord = static_cast<int64_t>(sizeof(uint64_t));

uint64_t* Words(const DeviceMemory& memory) {
  return static_cast<uint64_t*>(static_cast<void*>(memory.data()));
}

}  // namespace

absl::Status TensorHashes::Open(const RankState& state, size_t most) {
  state_ = &state;
  most_ = most;
  Clear();
  if (most == 0) return absl::OkStatus();
  const int64_t bytes = static_cast<int64_t>(most) * kWord;
  absl::StatusOr<DeviceMemory> hashes = state.device().AllocateShared(bytes);
  if (!hashes.ok()) return hashes.status();
  absl::StatusOr<DeviceMemory> parts = state.device().Allocate(bytes * kHashParts);
  if (!parts.ok()) return parts.status();
  hashes_ = *std::move(hashes);
  parts_ = *std::move(parts);
  return absl::OkStatus();
}

void TensorHashes::Clear() {
  tensors_.clear();
  queued_ = 0;
}

void TensorHashes::Add(const void* data, int64_t bytes) {
  assert(tensors_.size() < most_);
  tensors_.push_back({.data = data, .bytes = bytes});
}

void TensorHashes::Queue() {
  const auto added = absl::MakeConstSpan(tensors_).subspan(queued_);
  if (added.empty()) return;
  state_->kernels().hash(state_->stream(), added,
                         Words(parts_) + queued_ * static_cast<size_t>(kHashParts),
                         Words(hashes_) + queued_);
  queued_ = tensors_.size();
}

uint64_t TensorHashes::operator[](size_t number) const {
  assert(number < queued_);
  return Words(hashes_)[number];
}

uint64_t HashAll(const std::vector<uint64_t>& hashes) {
  if (hashes.empty()) return 0;
  if (hashes.size() == 1) return hashes.front();
  return XXH3_64bits(hashes.data(), hashes.size() * sizeof(uint64_t));
}

}  // namespace sluice
