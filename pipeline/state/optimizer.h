#ifndef SLUICE_PIPELINE_STATE_OPTIMIZER_H_
#define SLUICE_PIPELINE_STATE_OPTIMIZER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

enum class LrSchedule : uint8_t { kConstant, kCosine };

struct OptimizerOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double clip = 1.0;  // largest global gradient norm; 0: no clipping
  double beta1 = 0.9;
  double beta2 = 0.95;
  double momentum = 0.9;  // SGD
  int64_t warmup = 0;     // steps of linear growth from lr / warmup
  LrSchedule schedule = LrSchedule::kConstant;
  double final_lr_fraction = 0.1;  // where the cosine ends
};

// Learning rate of step `step` (from 1) of `steps`: linear warm-up, then constant or a half cosine
// down to final_lr_fraction * lr (Loshchilov & Hutter 2017, without restarts).
double LearningRate(const OptimizerOptions& options, int64_t step, int64_t steps);

// What gradients of this global norm are multiplied by, so that it is at most options.clip.
double GradientScale(const OptimizerOptions& options, double grad_norm);

// Updates the elements of these parameters that are this rank's. `grad_scale` multiplies the
// gradients (clipping); `step` counts from 1.
void UpdateParameters(const RankState& state, absl::Span<const ParameterView* const> parameters,
                      const OptimizerOptions& options, double lr, double grad_scale, int64_t step);

// Updates every local parameter, those slices that other ranks of the group update included, what
// this rank mirrors of another (mirror.h), and the compute copies. `group` joins the ranks of the
// RankGroup; null where it has one rank.
absl::Status UpdateWeights(RankState& state, const OptimizerOptions& options, double lr,
                           double grad_scale, int64_t step, Communicator* group,
                           absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_OPTIMIZER_H_
