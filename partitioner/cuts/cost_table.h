#ifndef SLUICE_PARTITIONER_CUTS_COST_TABLE_H_
#define SLUICE_PARTITIONER_CUTS_COST_TABLE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "partitioner/costs/layer_cost.h"
#include "schedules/partition.h"

namespace sluice {

// What a stage made of neighbouring layers costs: sums over its layers, except the workspace (the
// largest, since calls follow one another), the output (the last layer's) and what is tied.
struct RangeCost {
  double forward = 0;      // seconds
  double input_grad = 0;   // seconds, with what the recompute policy rebuilds first
  double weight_grad = 0;  // seconds
  // Seconds once per step, after the last gradient: update, sync and the sum of what is tied;
  // without tied_tail where the first layer is one.
  double tail = 0;
  // Of tail, what the rank does not do if it has the model's first layer in another stage.
  double tied_tail = 0;
  // Of tail, swapping the gradients of what the first and the last layer have in common, and adding
  // them up, where these two are on different ranks. Only PartitionProblem knows.
  double tied_exchange = 0;
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;  // without tied_bytes of the layers where the first layer is one
  // Of parameter_bytes, what the rank has once with the model's first layer, if it is in another
  // stage of the rank.
  int64_t tied_bytes = 0;
  bool has_first_layer = false;
  int64_t activation_bytes = 0;   // per micro-batch in flight
  int64_t weight_grad_bytes = 0;  // per micro-batch between its I and its W
  // What a call needs on top of what is in flight: its work areas and rebuilt tensors, less what
  // later layers of the stage do not hold while it runs (forwards allocate layer by layer,
  // backwards release so); the largest over layers.
  int64_t workspace_bytes = 0;
  int64_t forward_workspace_bytes = 0;  // the same of an F
  int64_t output_bytes = 0;

  double backward() const { return input_grad + weight_grad; }
  // Takes the update of what is tied out of the tail: the rank does it with the first layer.
  void UpdateTiedElsewhere();
};

// What a rank holds all the time of these stages of one copy of the model.
int64_t ParameterBytes(absl::Span<const RangeCost> stages);

// Layer costs, prepared so that any range is priced in constant time.
class CostTable {
 public:
  // InvalidArgument as ValidateLayerCosts.
  static absl::StatusOr<CostTable> Create(std::vector<LayerCost> layers);
  static absl::StatusOr<std::shared_ptr<const CostTable>> CreateShared(
      std::vector<LayerCost> layers);

  const std::vector<LayerCost>& layers() const { return layers_; }
  // The costs where timetables run W apart from I.
  const CostTable& apart() const { return apart_ == nullptr ? *this : *apart_; }
  int layer_count() const { return static_cast<int>(layers_.size()); }
  // Layers first..end - 1. Requires 0 <= first < end <= layer_count().
  RangeCost Price(int first, int end, Recompute recompute) const;
  RangeCost Price(const LayerRange& range, Recompute recompute) const {
    return Price(range.first, range.last + 1, recompute);
  }

 private:
  explicit CostTable(std::vector<LayerCost> layers);
  // [k][i]: the largest of the values i..i + 2^k - 1 (a sparse table).
  using Maxima = std::vector<std::vector<int64_t>>;

  void BuildSums();
  // Of the layers' `workspace` and rebuilt bytes + the saved bytes of all layers up to each.
  Maxima MaximaOf(int64_t LayerCost::*workspace, int policy) const;

  std::vector<LayerCost> layers_;
  std::shared_ptr<const CostTable> apart_;  // null where they are the same
  // [policy][i]: sums over layers 0..i - 1.
  std::array<std::vector<RangeCost>, kRecomputePolicies> sums_;
  // [policy]: what calls need, and what those of an F do.
  std::array<Maxima, kRecomputePolicies> any_call_, forward_call_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CUTS_COST_TABLE_H_
