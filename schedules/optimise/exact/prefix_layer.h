#ifndef SLUICE_SCHEDULES_OPTIMISE_EXACT_PREFIX_LAYER_H_
#define SLUICE_SCHEDULES_OPTIMISE_EXACT_PREFIX_LAYER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "schedules/optimise/exact/prefix.h"

namespace sluice::optimise {

// How a prefix came about: by which action, and from which prefix of the layer before, or of the
// one before that where the action is B.
struct Link {
  uint32_t parent = 0;
  Step step{};
};

// Prefixes with the same number of actions (B counts as two), none of which leaves nothing to gain
// from another one.
class PrefixLayer {
 public:
  // Whether `state` leaves nothing to gain from what is there.
  bool Covers(const PrefixState& state) const;
  // Adds `state`, which must not be covered, and drops those that it covers. Takes its contents.
  void Add(PrefixState& state, Link link);

  // Keeps the `width` prefixes with the lowest sums of bounds; of equal ones, those that came first.
  // Returns whether any had to go. Call it once, after the last Add.
  bool Keep(size_t width);

  size_t size() const { return entries_.size(); }
  const PrefixState& state(size_t index) const { return entries_[index].state; }
  std::vector<Link> links() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    PrefixState state;
    Link link;
    double promise = 0;
    uint32_t next = kNone;  // with the same hash of the counts
    bool covered = false;
  };

  std::vector<Entry> entries_;
  absl::flat_hash_map<size_t, uint32_t> first_;  // by the hash of the counts
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_EXACT_PREFIX_LAYER_H_
