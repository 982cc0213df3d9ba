#include "partitioner/partition_problem.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status ValidateProblem(const PartitionProblem& problem) {
  if (problem.timetable->placement.replicas() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", problem.timetable->name, " runs ", problem.timetable->placement.replicas(),
        " copies of the model; plans are for schedules with one copy"));
  }
  if (problem.timetable->updates != WeightUpdates::kFlush) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", problem.timetable->name, " updates weights without a flush and ",
                     "keeps several versions of them; plans are for synchronous schedules"));
  }
  const int layers = problem.costs->layer_count();
  if (problem.stages() > layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", problem.stages(), " stages for ", layers,
                     " layers; every stage needs at least one: use fewer devices or chunks"));
  }
  if (problem.fixed && static_cast<int>(problem.fixed->size()) != problem.stages()) {
    return absl::InvalidArgumentError(absl::StrCat("the partition has ", problem.fixed->size(),
                                                   " stages, the timetable ", problem.stages()));
  }
  if (problem.policies.empty()) {
    return absl::InvalidArgumentError("a stage needs at least one recompute policy to choose from");
  }
  if (!std::isfinite(problem.link.latency) || problem.link.latency < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the link's latency is ", problem.link.latency,
                                                   " s; expected 0 or more, finite"));
  }
  if (!(problem.link.bandwidth > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the link's bandwidth is ", problem.link.bandwidth, " B/s; expected more than 0"));
  }
  if (problem.memory_limit.has_value() && *problem.memory_limit <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the memory limit is ", *problem.memory_limit,
                                                   " bytes; expected more than 0"));
  }
  return absl::OkStatus();
}

std::vector<RangeCost> PriceStages(const PartitionProblem& problem,
                                   const StageAssignment& assignment) {
  std::vector<RangeCost> stages;
  for (size_t s = 0; s < assignment.partition.size(); ++s) {
    stages.push_back(problem.costs->Price(assignment.partition[s], assignment.recompute[s]));
  }
  return stages;
}

StageCosts ToStageCosts(const PartitionProblem& problem, const std::vector<RangeCost>& stages) {
  const Placement& placement = problem.timetable->placement;
  StageCosts costs;
  for (size_t s = 0; s < stages.size(); ++s) {
    costs.forward.push_back(stages[s].forward);
    costs.input_grad.push_back(stages[s].input_grad);
    costs.weight_grad.push_back(stages[s].weight_grad);
    costs.backward.push_back(stages[s].backward());
    costs.activation_bytes.push_back(static_cast<double>(stages[s].activation_bytes));
    costs.weight_grad_bytes.push_back(static_cast<double>(stages[s].weight_grad_bytes));
    if (s + 1 == stages.size()) continue;
    const int stage = static_cast<int>(s);
    const bool crosses = placement.rank(stage) != placement.rank(stage + 1);
    costs.send.push_back(crosses ? problem.link.Seconds(stages[s].output_bytes) : 0);
  }
  return costs;
}

std::vector<int64_t> PeakBytes(const InFlight& in_flight, const std::vector<RangeCost>& stages) {
  std::vector<int64_t> peaks;
  for (int rank = 0; rank < in_flight.ranks(); ++rank) {
    std::vector<RangeCost> chunks;
    for (int stage : in_flight.stages(rank)) chunks.push_back(stages[stage]);
    peaks.push_back(in_flight.PeakBytes(rank, chunks));
  }
  return peaks;
}

}  // namespace sluice
