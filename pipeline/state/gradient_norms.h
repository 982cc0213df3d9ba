#ifndef SLUICE_PIPELINE_STATE_GRADIENT_NORMS_H_
#define SLUICE_PIPELINE_STATE_GRADIENT_NORMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Sums of squares of some of a rank's gradients, in fp64: of blocks of kSquaresBlock elements, then
// of kSumGroup blocks each, in order, then of those groups, in order.
class SquareSums {
 public:
  SquareSums(const RankState* state, std::vector<const ParameterView*> views);

  // Adds the sum of each view's slice of gradients to `sums`, at the parameter's canonical index;
  // `sums` has an entry for every parameter of the model.
  void AddTo(absl::Span<double> sums);

  // The steps of an AddTo, for slices of which other ranks have the rest: who has the first ones
  // begins with zeros, and hands on what it has.
  // Queues the sums of the blocks.
  void QueueBlocks();
  // How far the sums have come: two entries for each parameter of the model (GroupedSum::sums).
  absl::Span<double> partial() { return absl::MakeSpan(partial_); }
  // Goes on from partial() with the blocks that were queued.
  void AddBlocks();
  // Adds what partial() comes to, as AddTo.
  void AddPartialTo(absl::Span<double> sums) const;

 private:
  const RankState& state_;
  const std::vector<const ParameterView*> views_;
  // In the arena: partial_, and the blocks' sums.
  double* const sums_;
  double* const blocks_;
  std::vector<SquaredTensor> gradients_;  // [view]
  std::vector<GroupedSum> rows_;          // [view]
  std::vector<double> partial_;
};

// Sums of squares of a rank's gradients, to the same bits whichever rank of a group has which
// slices.
class GradientNorms {
 public:
  // `group` joins the ranks of the rank's RankGroup, by ordinary memory; null where it has one rank.
  GradientNorms(const RankState* state, Communicator* group);

  // Replaces `norms` by the sum of each local gradient, at its canonical index, on the last rank
  // of the group; on the others all are 0. A parameter that is tied to another counts with that one and
  // is left at 0, as is one of a second copy of the model.
  absl::Status Sum(absl::Duration timeout, absl::Span<double> norms);

 private:
  // Each rank of the group adds its slices' blocks to the sums that the one before it has.
  absl::Status Chain(absl::Duration timeout, absl::Span<double> norms);

  Communicator* const group_;
  SquareSums sums_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_GRADIENT_NORMS_H_
