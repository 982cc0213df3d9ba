#ifndef SLUICE_PIPELINE_RECOVER_MOVES_H_
#define SLUICE_PIPELINE_RECOVER_MOVES_H_

#include <vector>

#include "absl/types/span.h"
#include "pipeline/recover/state_ranges.h"

namespace sluice {

// A range of state that goes from one rank to another, or from a rank's old memory to its new one.
struct StateMove {
  int from = 0;
  int to = 0;
  StateRange what;

  friend bool operator==(const StateMove&, const StateMove&) = default;
};

struct StateMoves {
  std::vector<StateMove> moves;
  // What nobody holds that was needed: [rank], ranges of frozen parameters and of trained ones.
  std::vector<std::vector<StateRange>> missing;

  // Whether something is missing that only training can make.
  bool loses_training() const;
};

// Who sends what to whom, so that every rank has what it needs: `held` and `needed` are [rank]. A
// rank takes from its own memory what is there, and of the others, whoever has most of what is still
// missing. Depends on nothing but its arguments, so all ranks find the same.
StateMoves PlanMoves(absl::Span<const std::vector<StateRange>> held,
                     absl::Span<const std::vector<StateRange>> needed);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RECOVER_MOVES_H_
