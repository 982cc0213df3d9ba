#include "partitioner/planning/answer/default_partition.h"

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

// `factor`: a multiple of what the FLOPs say; on a rank of `speed`.
LayerCost Price(const LayerSpec& layer, double factor, double speed) {
  const double touched = static_cast<double>(layer.output_elements) / kElementsPerSecond;
  LayerCost cost;
  cost.name = layer.name;
  cost.forward_seconds = (layer.forward_flops / kFlopsPerSecond + touched) * factor / speed;
  cost.input_grad_seconds = (layer.input_grad_flops / kFlopsPerSecond + touched) * factor / speed;
  cost.weight_grad_seconds = layer.weight_grad_flops / kFlopsPerSecond * factor / speed;
  return cost;
}

absl::StatusOr<std::shared_ptr<const CostTable>> PriceAll(const std::vector<LayerSpec>& specs,
                                                          const std::vector<double>& factors,
                                                          double speed) {
  std::vector<LayerCost> costs;
  for (size_t layer = 0; layer < specs.size(); ++layer)
    costs.push_back(Price(specs[layer], factors.empty() ? 1 : factors[layer], speed));
  return CostTable::CreateShared(std::move(costs));
}

absl::StatusOr<PartitionProblem> ProblemOf(const TrainedLayers& layers) {
  const std::vector<LayerSpec> specs =
      DescribeAdapted(*layers.spec, layers.batch, layers.adaptation, layers.head);
  const std::vector<double>& factors = layers.layer_factors;
  if (!factors.empty() && factors.size() != specs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got factors of ", factors.size(), " layers; the model has ", specs.size()));
  }
  PartitionProblem problem;
  auto costs = PriceAll(specs, factors, 1);
  if (!costs.ok()) return costs.status();
  problem.machines.costs = *std::move(costs);
  for (const double speed : layers.rank_speeds) {
    auto of_rank = PriceAll(specs, factors, speed);
    if (!of_rank.ok()) return of_rank.status();
    problem.machines.rank_costs.push_back(*std::move(of_rank));
  }
  for (const double seconds : layers.link_seconds)
    problem.machines.rank_links.push_back({.latency = seconds});
  return problem;
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

// The stages of every copy of the model cost what those of the first do. No message goes from one
// copy to the next.
StageCosts ForCopies(StageCosts costs, int copies) {
  const StageCosts first = costs;
  const auto append = [](std::vector<double>* all, const std::vector<double>& values) {
    all->insert(all->end(), values.begin(), values.end());
  };
  for (int copy = 1; copy < copies; ++copy) {
    append(&costs.forward, first.forward);
    append(&costs.input_grad, first.input_grad);
    append(&costs.weight_grad, first.weight_grad);
    append(&costs.backward, first.backward);
    append(&costs.activation_bytes, first.activation_bytes);
    append(&costs.weight_grad_bytes, first.weight_grad_bytes);
    costs.send.push_back(0);
    append(&costs.send, first.send);
  }
  return costs;
}

}  // namespace

absl::StatusOr<DefaultStages> DefaultPartition(const TrainedLayers& layers,
                                               const Timetable& timetable) {
  absl::StatusOr<PartitionProblem> problem = ProblemOf(layers);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Timetable> computed = StandIn(timetable);
  if (!computed.ok()) return computed.status();
  problem->timetable = &*computed;
  SearchOptions options;
  options.budget = kSearchBudget;
  absl::StatusOr<PartitionAnswer> answer = FindExactPartition(*problem, options);
  if (answer.ok()) {
    return DefaultStages{std::move(answer->assignment.partition), answer->seconds,
                         answer->lower_bound};
  }
  if (absl::IsDeadlineExceeded(answer.status())) {
    absl::StatusOr<Partition> even =
        EvenPartition(layers.spec->layer_count(), timetable.placement.model_stages());
    if (!even.ok()) return even.status();
    return DefaultStages{*std::move(even), std::numeric_limits<double>::infinity()};
  }
  return answer.status();
}

absl::StatusOr<StageCosts> PriceDefaultStages(const TrainedLayers& layers,
                                              const Timetable& timetable,
                                              const Partition& partition,
                                              const std::vector<Recompute>& recompute) {
  absl::StatusOr<PartitionProblem> problem = ProblemOf(layers);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Timetable> computed = StandIn(timetable);
  if (!computed.ok()) return computed.status();
  problem->timetable = &*computed;
  problem->fixed = partition;
  if (absl::Status status = ValidateProblem(*problem); !status.ok()) return status;
  StageAssignment assignment = {partition, recompute};
  assignment.recompute.resize(partition.size(), Recompute::kNone);
  return ForCopies(ToStepCosts(*problem, PriceStages(*problem, assignment)),
                   timetable.placement.copies());
}

}  // namespace sluice
