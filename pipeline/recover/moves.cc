#include "pipeline/recover/moves.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace sluice {
namespace {

// A range of one tensor on the rank that holds it.
struct Holding {
  int rank = 0;
  int64_t first = 0, end = 0;
};
using Tensor = std::pair<int, StateKind>;

Tensor TensorOf(const StateRange& range) { return {range.parameter, range.kind}; }

// The best of those that hold element `at`: what is here already; else what reaches furthest, of the
// lowest rank. Null where nobody has it.
const Holding* Best(const std::vector<Holding>& holdings, int64_t at, int here) {
  const Holding* best = nullptr;
  for (const Holding& holding : holdings) {
    if (holding.first > at || holding.end <= at) continue;
    if (holding.rank == here) return &holding;
    if (best == nullptr || holding.end > best->end) best = &holding;
  }
  return best;
}

// Where the next holding begins after `at`, that of rank `here` or, where it is negative, of any rank;
// else `end`.
int64_t NextHeld(const std::vector<Holding>& holdings, int64_t at, int64_t end, int here) {
  for (const Holding& holding : holdings) {
    const bool counts = here < 0 || holding.rank == here;
    if (counts && holding.first > at) end = std::min(end, holding.first);
  }
  return end;
}

}  // namespace

bool StateMoves::loses_training() const {
  return std::any_of(missing.begin(), missing.end(), [](const std::vector<StateRange>& of_rank) {
    return std::any_of(of_rank.begin(), of_rank.end(),
                       [](const StateRange& range) { return !range.frozen; });
  });
}

StateMoves PlanMoves(absl::Span<const std::vector<StateRange>> held,
                     absl::Span<const std::vector<StateRange>> needed) {
  std::map<Tensor, std::vector<Holding>> holdings;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    for (const StateRange& range : held[rank]) {
      holdings[TensorOf(range)].push_back(
          {static_cast<int>(rank), range.first, range.first + range.count});
    }
  }
  StateMoves plan;
  plan.missing.resize(needed.size());
  for (size_t rank = 0; rank < needed.size(); ++rank) {
    const int here = static_cast<int>(rank);
    for (const StateRange& need : needed[rank]) {
      const std::vector<Holding>& of_tensor = holdings[TensorOf(need)];
      const int64_t end = need.first + need.count;
      for (int64_t at = need.first; at < end;) {
        const Holding* const best = Best(of_tensor, at, here);
        const int64_t next = best == nullptr ? NextHeld(of_tensor, at, end, -1)
                             : best->rank == here
                                 ? std::min(best->end, end)
                                 : std::min(best->end, NextHeld(of_tensor, at, end, here));
        StateRange range = need;
        range.first = std::exchange(at, next);
        range.count = next - range.first;
        if (best != nullptr) {
          plan.moves.push_back({.from = best->rank, .to = here, .what = range});
        } else {
          plan.missing[rank].push_back(range);
        }
      }
    }
  }
  return plan;
}

}  // namespace sluice
