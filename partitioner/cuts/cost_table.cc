#include "partitioner/cuts/cost_table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace sluice {

namespace {

// Whether a timetable that runs W apart from I costs more.
bool CostsMoreApart(const LayerCost& layer) {
  return layer.apart_input_grad_seconds > layer.input_grad_seconds ||
         layer.apart_weight_grad_seconds > layer.weight_grad_seconds;
}

}  // namespace

// Differences of sums are rounded, and must not be negative.
void RangeCost::UpdateTiedElsewhere() { tail = std::max(0.0, tail - std::exchange(tied_tail, 0)); }

int64_t ParameterBytes(absl::Span<const RangeCost> stages) {
  int64_t bytes = 0, tied = 0;
  bool has_first_layer = false;
  for (const RangeCost& stage : stages) {
    bytes += stage.parameter_bytes;
    tied += stage.tied_bytes;
    has_first_layer = has_first_layer || stage.has_first_layer;
  }
  return has_first_layer ? bytes - tied : bytes;
}

absl::StatusOr<CostTable> CostTable::Create(std::vector<LayerCost> layers) {
  if (absl::Status status = ValidateLayerCosts(layers); !status.ok()) return status;
  CostTable table(layers);
  if (std::none_of(layers.begin(), layers.end(), CostsMoreApart)) return table;
  for (LayerCost& layer : layers) {
    layer.input_grad_seconds = std::max(layer.input_grad_seconds, layer.apart_input_grad_seconds);
    layer.weight_grad_seconds =
        std::max(layer.weight_grad_seconds, layer.apart_weight_grad_seconds);
  }
  table.apart_ = std::make_shared<const CostTable>(CostTable(std::move(layers)));
  return table;
}

absl::StatusOr<std::shared_ptr<const CostTable>> CostTable::CreateShared(
    std::vector<LayerCost> layers) {
  absl::StatusOr<CostTable> table = Create(std::move(layers));
  if (!table.ok()) return table.status();
  return std::make_shared<const CostTable>(*std::move(table));
}

CostTable::CostTable(std::vector<LayerCost> layers) : layers_(std::move(layers)) {
  BuildSums();
  for (int policy = 0; policy < kRecomputePolicies; ++policy) {
    any_call_[policy] = MaximaOf(&LayerCost::workspace_bytes, policy);
    forward_call_[policy] = MaximaOf(&LayerCost::forward_workspace_bytes, policy);
  }
}

void CostTable::BuildSums() {
  for (int policy = 0; policy < kRecomputePolicies; ++policy) {
    std::vector<RangeCost>& sums = sums_[policy];
    sums.resize(layers_.size() + 1);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerCost& layer = layers_[i];
      RangeCost sum = sums[i];
      sum.forward += layer.forward_seconds;
      sum.input_grad +=
          layer.input_grad_seconds + layer.recompute_seconds(static_cast<Recompute>(policy));
      sum.weight_grad += layer.weight_grad_seconds;
      sum.tail += layer.update_seconds + layer.sync_seconds + layer.tied_sum_seconds;
      sum.tied_tail += layer.tied_update_seconds;
      sum.parameters += layer.parameters;
      sum.parameter_bytes += layer.parameter_bytes;
      sum.tied_bytes += layer.tied_bytes;
      sum.activation_bytes += layer.saved_bytes[policy];
      sum.weight_grad_bytes += layer.weight_grad_bytes;
      sums[i + 1] = sum;
    }
  }
}

CostTable::Maxima CostTable::MaximaOf(int64_t LayerCost::*workspace, int policy) const {
  Maxima levels(1);
  for (size_t i = 0; i < layers_.size(); ++i) {
    levels[0].push_back(layers_[i].*workspace +
                        layers_[i].rebuilt_bytes(static_cast<Recompute>(policy)) +
                        sums_[policy][i + 1].activation_bytes);
  }
  for (size_t width = 2; width <= layers_.size(); width *= 2) {
    const std::vector<int64_t>& half = levels.back();
    std::vector<int64_t> level(layers_.size() - width + 1);
    for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(half[i], half[i + width / 2]);
    levels.push_back(std::move(level));
  }
  return levels;
}

RangeCost CostTable::Price(int first, int end, Recompute recompute) const {
  assert(0 <= first && first < end && end <= layer_count());
  const int policy = static_cast<int>(recompute);
  const RangeCost& from = sums_[policy][first];
  const RangeCost& to = sums_[policy][end];
  RangeCost cost;
  cost.forward = to.forward - from.forward;
  cost.input_grad = to.input_grad - from.input_grad;
  cost.weight_grad = to.weight_grad - from.weight_grad;
  cost.tail = to.tail - from.tail;
  cost.tied_tail = to.tied_tail - from.tied_tail;
  cost.parameters = to.parameters - from.parameters;
  cost.parameter_bytes = to.parameter_bytes - from.parameter_bytes;
  cost.tied_bytes = to.tied_bytes - from.tied_bytes;
  cost.has_first_layer = first == 0;
  if (cost.has_first_layer) {
    cost.parameter_bytes -= std::exchange(cost.tied_bytes, 0);
    cost.UpdateTiedElsewhere();
  }
  cost.activation_bytes = to.activation_bytes - from.activation_bytes;
  cost.weight_grad_bytes = to.weight_grad_bytes - from.weight_grad_bytes;
  const int k = std::bit_width(static_cast<unsigned>(end - first)) - 1;
  const auto largest = [first, second = end - (1 << k)](const std::vector<int64_t>& level) {
    return std::max(level[first], level[second]);
  };
  cost.workspace_bytes = largest(any_call_[policy][k]) - to.activation_bytes;
  cost.forward_workspace_bytes = largest(forward_call_[policy][k]) - to.activation_bytes;
  cost.output_bytes = layers_[end - 1].output_bytes;
  return cost;
}

}  // namespace sluice
