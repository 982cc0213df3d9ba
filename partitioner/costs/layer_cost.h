#ifndef SLUICE_PARTITIONER_COSTS_LAYER_COST_H_
#define SLUICE_PARTITIONER_COSTS_LAYER_COST_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"

namespace sluice {

inline constexpr int kRecomputePolicies = 3;

// "none", "selective", "full"; and back: false for anything else.
const char* RecomputeName(Recompute recompute);
bool ParseRecompute(absl::string_view text, Recompute* recompute);

// What one layer costs on one device, for one micro-batch where not said otherwise. The planner
// works on a vector of these wherever they come from: an analytic roofline, a measured profile, an
// imported one.
struct LayerCost {
  std::string name;
  double forward_seconds = 0;
  double input_grad_seconds = 0;
  double weight_grad_seconds = 0;
  // The same where W is not run right after its I but after that of other layers or micro-batches,
  // and finds in slow memory what else was in the cache; less than the above counts as the above.
  double apart_input_grad_seconds = 0;
  double apart_weight_grad_seconds = 0;
  // Rebuilding what Recompute::kSelective drops. kFull rebuilds everything and costs another
  // forward.
  double restore_seconds = 0;
  // Once a step, after the layer's last gradient: the optimizer's update, and what of the replicas'
  // summing of gradients no computation hides.
  double update_seconds = 0;
  // Of update_seconds, those that a rank saves which also holds the model's first layer: the update
  // of a head's weights that are tied to the embedding, which it has once, and what replicas then do
  // once for both.
  double tied_update_seconds = 0;
  // Of the last layer, adding the gradient of the first layer's to that of its own weights that are
  // tied to them. Each of two ranks that have one of the two layers does it.
  double tied_sum_seconds = 0;
  double sync_seconds = 0;
  int64_t parameters = 0;  // that are trained, and so have gradients to sum
  // Of these, kept in bf16 with the low halves in the optimizer's state (MasterWeights::kSplit).
  int64_t split_parameters = 0;
  // Held all the time: master weights, gradients, optimizer state, compute copies.
  int64_t parameter_bytes = 0;
  // Of these, what a rank has once that also holds the model's first layer: a head's weights that are
  // tied to the embedding, and their part of the optimizer's state. At most the parameter_bytes of
  // either layer.
  int64_t tied_bytes = 0;
  int64_t tied_state_bytes = 0;  // of tied_bytes, those of the optimizer's state
  // Of the last layer, of the gradients that its rank and that of the first layer, where these are
  // two, swap once per step: of the weights that are tied. 0 of every other layer.
  int64_t tied_gradient_bytes = 0;
  // Kept from the start of F to the end of B (or I), the layer's input included, by recompute
  // policy.
  std::array<int64_t, kRecomputePolicies> saved_bytes = {0, 0, 0};
  // Kept from the end of I to the end of W where these are apart.
  int64_t weight_grad_bytes = 0;
  int64_t output_bytes = 0;  // the activation sent on; its gradient comes back in the same size
  // Needed by a single call on top of what is saved; shared by all calls of a rank.
  int64_t workspace_bytes = 0;
  // The same of an F, which needs no gradients: at most workspace_bytes.
  int64_t forward_workspace_bytes = 0;

  double recompute_seconds(Recompute recompute) const;
  // What the backward of one micro-batch must rebuild before it can run.
  int64_t rebuilt_bytes(Recompute recompute) const;
};

// Split where something of the layers is.
MasterWeights MasterWeightsOf(const std::vector<LayerCost>& layers);

// InvalidArgument names the layer and the field that is negative, NaN or infinite; also when there
// are no layers, or so many bytes that sums of them could overflow.
absl::Status ValidateLayerCosts(const std::vector<LayerCost>& layers);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_LAYER_COST_H_
