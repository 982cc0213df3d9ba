#include "partitioner/partition_problem.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedules/counted.h"

namespace sluice {

namespace {

// Of a rank, so that no sum overflows: 2^62.
constexpr double kMostBytes = 4611686018427387904.0;

// All layers on one rank with every micro-batch in flight is the most that is ever counted.
absl::Status CheckBytes(const CostTable& costs, int micro_batches) {
  const RangeCost all = costs.Price(0, costs.layer_count(), Recompute::kNone);
  const double in_flight =
      static_cast<double>(all.activation_bytes) + static_cast<double>(all.weight_grad_bytes);
  const double bytes = static_cast<double>(all.parameter_bytes) +
                       static_cast<double>(all.workspace_bytes) + in_flight * micro_batches;
  if (bytes <= kMostBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Counted(micro_batches, "micro-batch"), " of ",
                                                 in_flight, " bytes are more than ", kMostBytes,
                                                 " bytes; make them smaller or fewer"));
}

}  // namespace

double PartitionProblem::SendSeconds(int stage, int64_t bytes) const {
  const Placement& placement = timetable->placement;
  return placement.rank(stage) == placement.rank(stage + 1) ? 0 : LinkAfter(stage).Seconds(bytes);
}

void PartitionProblem::AddTiedExchange(int stage, RangeCost* cost) const {
  const Placement& placement = timetable->placement;
  const int first = placement.rank(0), last = placement.rank(stages() - 1);
  const LayerCost& head = CostsOf(stage).layers().back();
  if (first == last || head.tied_gradient_bytes == 0) return;
  // Both directions at once. The rank that is done earlier waits for the other one; its tail starts
  // when it is done itself, which is no later.
  const double swap = machines.LinkBetween(last, first).Seconds(head.tied_gradient_bytes);
  cost->tied_exchange = swap + head.tied_sum_seconds;
  // The tail of the last layer has the sum wherever the first one is.
  cost->tail += stage == 0 ? cost->tied_exchange : swap;
}

absl::Status ValidateProblem(const PartitionProblem& problem) {
  if (problem.timetable->placement.copies() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", problem.timetable->name, " runs ", problem.timetable->placement.copies(),
        " copies of the model; plans are for schedules with one copy"));
  }
  if (problem.timetable->updates != WeightUpdates::kFlush) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", problem.timetable->name, " updates weights without a flush and ",
                     "keeps several versions of them; plans are for synchronous schedules"));
  }
  const int layers = problem.layer_count();
  if (problem.stages() > layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", Counted(problem.stages(), "stage"), " for ", Counted(layers, "layer"),
                     "; every stage needs at least one: use fewer devices or chunks"));
  }
  if (problem.fixed && static_cast<int>(problem.fixed->size()) != problem.stages()) {
    return absl::InvalidArgumentError(absl::StrCat("the partition has ",
                                                   Counted(problem.fixed->size(), "stage"),
                                                   ", the timetable ", problem.stages()));
  }
  if (problem.policies.empty()) {
    return absl::InvalidArgumentError("a stage needs at least one recompute policy to choose from");
  }
  const Machines& machines = problem.machines;
  absl::Status status = ValidateMachines(machines, problem.timetable->placement.ranks());
  status.Update(CheckBytes(*machines.costs, problem.timetable->micro_batches));
  for (const auto& costs : machines.rank_costs) {
    status.Update(CheckBytes(*costs, problem.timetable->micro_batches));
  }
  return status;
}

std::vector<RangeCost> PriceStages(const PartitionProblem& problem,
                                   const StageAssignment& assignment) {
  std::vector<RangeCost> stages;
  for (size_t s = 0; s < assignment.partition.size(); ++s) {
    const LayerRange& layers = assignment.partition[s];
    stages.push_back(
        problem.Price(static_cast<int>(s), layers.first, layers.last + 1, assignment.recompute[s]));
  }
  return stages;
}

StepCosts ToStepCosts(const PartitionProblem& problem, const std::vector<RangeCost>& stages) {
  StepCosts costs;
  for (size_t s = 0; s < stages.size(); ++s) {
    costs.forward.push_back(stages[s].forward);
    costs.input_grad.push_back(stages[s].input_grad);
    costs.weight_grad.push_back(stages[s].weight_grad);
    costs.backward.push_back(stages[s].backward());
    costs.activation_bytes.push_back(static_cast<double>(stages[s].activation_bytes));
    costs.weight_grad_bytes.push_back(static_cast<double>(stages[s].weight_grad_bytes));
    costs.tail.push_back(stages[s].tail);
    if (s + 1 == stages.size()) continue;
    costs.send.push_back(problem.SendSeconds(static_cast<int>(s), stages[s].output_bytes));
  }
  return costs;
}

int64_t PeakBytes(const InFlight& in_flight, const std::vector<RangeCost>& stages, int rank) {
  std::vector<RangeCost> chunks;
  for (int stage : in_flight.stages(rank)) chunks.push_back(stages[stage]);
  return in_flight.PeakBytes(rank, chunks);
}

std::vector<int64_t> PeakBytes(const InFlight& in_flight, const std::vector<RangeCost>& stages) {
  std::vector<int64_t> peaks;
  for (int rank = 0; rank < in_flight.ranks(); ++rank) {
    peaks.push_back(PeakBytes(in_flight, stages, rank));
  }
  return peaks;
}

}  // namespace sluice
