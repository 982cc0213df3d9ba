#ifndef SLUICE_PIPELINE_GRADIENT_NORMS_H_
#define SLUICE_PIPELINE_GRADIENT_NORMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/communicator.h"
#include "pipeline/rank_state.h"

namespace sluice {

// The sum of squares in fp64, block by block of kShardBlock elements, in order.
double SumOfSquares(const float* values, int64_t count);

// Sums of squares of a rank's gradients, to the same bits whichever replica has which slices.
class GradientNorms {
 public:
  // `replicas`: the ranks that hold the same stages, one of each replica; null where there is one.
  GradientNorms(const RankState* state, Communicator* replicas);

  // Replaces `norms` by the sum of each local gradient, at its canonical index, on the last
  // replica; on the others all are 0. A parameter that is tied to another counts with that one and
  // is left at 0, as is one of a second copy of the model.
  absl::Status Sum(absl::Duration timeout, absl::Span<double> norms);

 private:
  // Each replica adds its slices' blocks to the sums that the one before it has.
  absl::Status Chain(absl::Duration timeout, absl::Span<double> norms);

  const RankState& state_;
  Communicator* const replicas_;
  std::vector<const ParameterView*> views_;  // those that count
  std::vector<double> blocks_;               // sums of squares of the slices' blocks
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_GRADIENT_NORMS_H_
