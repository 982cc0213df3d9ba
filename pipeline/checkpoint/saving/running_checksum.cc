#include "pipeline/checkpoint/saving/running_checksum.h"

#include <cassert>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_format.h"

// The state's members are needed below.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

struct RunningChecksum::State {
  XXH3_state_t xxh;
};

static_assert(std::is_trivially_copyable_v<XXH3_state_t>);

RunningChecksum::RunningChecksum() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}

RunningChecksum::~RunningChecksum() = default;

void RunningChecksum::Add(const void* data, size_t size) {
  XXH3_128bits_update(&state_->xxh, data, size);
}

std::string RunningChecksum::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

size_t RunningChecksum::ExportBytes() { return sizeof(XXH3_state_t); }

std::string RunningChecksum::Export() const {
  std::string bytes(ExportBytes(), '\0');
  std::memcpy(bytes.data(), &state_->xxh, bytes.size());
  return bytes;
}

void RunningChecksum::Import(absl::Span<const char> state) {
  assert(state.size() == ExportBytes());
  // The one address in it is where this process has the algorithm's constant.
  const unsigned char* const secret = state_->xxh.extSecret;
  std::memcpy(&state_->xxh, state.data(), sizeof(XXH3_state_t));
  state_->xxh.extSecret = secret;
}

}  // namespace sluice
