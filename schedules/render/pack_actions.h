#ifndef SLUICE_SCHEDULES_RENDER_PACK_ACTIONS_H_
#define SLUICE_SCHEDULES_RENDER_PACK_ACTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "schedules/simulate/simulation.h"

// How the HTML page holds its actions.
namespace sluice {

// The actions of a critical path, to ask whether one is among them.
class CriticalSet {
 public:
  explicit CriticalSet(const std::vector<TimedAction>& path);
  bool Holds(const Action& action) const { return keys_.contains(Key(action)); }

 private:
  static uint64_t Key(const Action& action);
  absl::flat_hash_set<uint64_t> keys_;
};

// Bits of an action's kind; the bits below hold its op.
constexpr uint8_t kFirstHalfBit = 1 << 4;   // of an overlapped pair
constexpr uint8_t kSecondHalfBit = 1 << 5;  // of an overlapped pair
constexpr uint8_t kCriticalBit = 1 << 6;    // on the critical path

// The drawn actions (those that compute, and others that take time) of all ranks, rank by rank, as
// columns of little-endian numbers, one after the other:
//   uint32 start[n], uint32 end[n]   in ticks
//   int32 micro_batch[n]             -1: none
//   uint16 stage[n]
//   uint8 kind[n]                    Op and the bits above
struct PackedActions {
  // The unit of time: a power of two, so that multiples of it (whole numbers, halves, ...) stay
  // exact; other times are off by at most half a tick, which is 2^-32 of the last end.
  double tick = 1;
  std::vector<size_t> counts;  // [rank] actions
  std::string bytes;
};

PackedActions PackActions(const std::vector<std::vector<TimedAction>>& rows,
                          const CriticalSet& critical);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_PACK_ACTIONS_H_
