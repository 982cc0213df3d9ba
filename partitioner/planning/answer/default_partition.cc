#include "partitioner/planning/answer/default_partition.h"

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "models/layers/adapted_layers.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_options.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"

namespace sluice {
namespace {

// Only their ratio matters: how much a layer's element-wise work weighs beside its products. Of a
// CPU core.
constexpr double kFlopsPerSecond = 1e11;
constexpr double kElementsPerSecond = 1e9;
// About a tenth of a second; beyond it the best found so far is good enough for a default.
constexpr int64_t kSearchBudget = 20'000'000;

// On `ranks` at a time.
LayerCost Price(const LayerSpec& layer, double ranks) {
  const double touched = static_cast<double>(layer.output_elements) / kElementsPerSecond;
  LayerCost cost;
  cost.name = layer.name;
  cost.forward_seconds = (layer.forward_flops / kFlopsPerSecond + touched) / ranks;
  cost.input_grad_seconds = (layer.input_grad_flops / kFlopsPerSecond + touched) / ranks;
  cost.weight_grad_seconds = layer.weight_grad_flops / kFlopsPerSecond / ranks;
  return cost;
}

absl::StatusOr<std::shared_ptr<const CostTable>> PriceAll(const ModelSpec& spec,
                                                          const BatchShape& batch,
                                                          const Adaptation& adaptation,
                                                          const HeadLimits& head, double ranks) {
  std::vector<LayerCost> layers;
  for (const LayerSpec& layer : DescribeAdapted(spec, batch, adaptation, head))
    layers.push_back(Price(layer, ranks));
  return CostTable::CreateShared(std::move(layers));
}

// What the search simulates. It knows one copy of the model, and steps with a flush: for others, a
// plain pipeline over the same ranks has the same stages.
absl::StatusOr<Timetable> StandIn(const Timetable& timetable) {
  const bool plain =
      timetable.placement.copies() == 1 && timetable.updates == WeightUpdates::kFlush;
  if (plain) return ComputeOnly(timetable);
  return GenerateSchedule(
      "1f1b", {.ranks = timetable.placement.ranks(), .micro_batches = timetable.micro_batches});
}

}  // namespace

absl::StatusOr<DefaultStages> DefaultPartition(const ModelSpec& spec, const BatchShape& batch,
                                               const Adaptation& adaptation, const HeadLimits& head,
                                               const Timetable& timetable,
                                               const std::vector<int>& replicas) {
  PartitionProblem problem;
  auto costs = PriceAll(spec, batch, adaptation, head, 1);
  if (!costs.ok()) return costs.status();
  problem.machines.costs = *std::move(costs);
  for (const int count : replicas) {
    auto of_stage = PriceAll(spec, batch, adaptation, head, count);
    if (!of_stage.ok()) return of_stage.status();
    problem.machines.rank_costs.push_back(*std::move(of_stage));
  }
  const absl::StatusOr<Timetable> computed = StandIn(timetable);
  if (!computed.ok()) return computed.status();
  problem.timetable = &*computed;
  SearchOptions options;
  options.budget = kSearchBudget;
  absl::StatusOr<PartitionAnswer> answer = FindExactPartition(problem, options);
  if (answer.ok()) return DefaultStages{std::move(answer->assignment.partition), answer->seconds};
  if (absl::IsDeadlineExceeded(answer.status())) {
    absl::StatusOr<Partition> even =
        EvenPartition(spec.layer_count(), timetable.placement.model_stages());
    if (!even.ok()) return even.status();
    return DefaultStages{*std::move(even), std::numeric_limits<double>::infinity()};
  }
  return answer.status();
}

}  // namespace sluice
