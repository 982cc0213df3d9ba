#include "pipeline/train/base_hash.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "comm/progress.h"
#include "pipeline/state/host_state.h"
#include "pipeline/state/rounds.h"
#include "pipeline/state/state_pieces.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

constexpr unsigned kHalf = 32;

absl::StatusOr<uint64_t> HashOf(const ParameterView& view, HostReader* reader, Rounds* rounds) {
  const std::string& name = view.decl->name;
  XXH3_state_t hash;
  XXH3_64bits_reset_withSeed(&hash, XXH3_64bits(name.data(), name.size()));
  for (int64_t first = 0; first < view.elements; first += kStatePiece) {
    const int64_t count = std::min(kStatePiece, view.elements - first);
    XXH3_64bits_update(&hash, reader->Read({view.decl->dtype, view.weight}, first, count),
                       static_cast<size_t>(count) * sizeof(float));
    if (absl::Status status = rounds->Tick(); !status.ok()) return status;
  }
  return XXH3_64bits_digest(&hash);
}

}  // namespace

absl::StatusOr<std::string> HashBase(const RankState& state, Communicator& world,
                                     absl::Duration timeout) {
  HostReader reader(&state.device(), state.stream());
  // The others wait, for longer than the time-out maybe.
  Rounds rounds(&world, timeout);
  uint64_t sum = 0;
  // One rank of those that have the same layers, and one copy of the model, counts.
  if (state.plan().GroupOf(state.world_rank()).rank(0) == state.world_rank()) {
    for (const ParameterView& view : state.parameters()) {
      const bool counts = view.model_copy == 0 && view.decl->frozen && view.decl->tied_to.empty();
      if (counts) {
        const absl::StatusOr<uint64_t> hash = HashOf(view, &reader, &rounds);
        if (!hash.ok()) return hash.status();
        sum += *hash;
      }
      if (world.progress() != nullptr) world.progress()->Step();
    }
  }
  if (absl::Status status = reader.Check(timeout); !status.ok()) return status;
  if (absl::Status status = rounds.Finish(); !status.ok()) return status;
  // Halves, since an all-gather carries doubles.
  const double halves[] = {static_cast<double>(sum >> kHalf),
                           static_cast<double>(sum & 0xffffffffU)};
  std::vector<double> all(2 * static_cast<size_t>(world.size()));
  absl::Status status = world.AllGather(halves, absl::MakeSpan(all), Instant::Now() + timeout);
  if (!status.ok()) return status;
  sum = 0;
  for (size_t rank = 0; rank < all.size(); rank += 2)
    sum += (static_cast<uint64_t>(all[rank]) << kHalf) + static_cast<uint64_t>(all[rank + 1]);
  return absl::StrFormat("%016x", sum);
}

}  // namespace sluice
