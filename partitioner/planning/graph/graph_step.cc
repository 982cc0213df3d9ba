#include "partitioner/planning/graph/graph_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/spec/units.h"
#include "partitioner/candidate.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/cuts/some_cuts.h"
#include "partitioner/graph_plan.h"
#include "partitioner/graph_problem.h"
#include "partitioner/planning/graph/graph_chain.h"
#include "partitioner/planning/graph/graph_contestant.h"
#include "partitioner/planning/graph/graph_planner.h"
#include "partitioner/planning/graph/graph_seeds.h"
#include "partitioner/planning/graph/graph_stage.h"
#include "partitioner/planning/graph/replicated_plan.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/least_memory_plan.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/planning/race/race.h"
#include "partitioner/search/graph_partition.h"
#include "partitioner/search/graph_step_search.h"
#include "schedules/counted.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Seconds within this of each other, relatively, are the same to people.
constexpr double kSame = 1e-6;
// How often some of the cuts are listed around the best plan found.
constexpr int kMostRounds = 3;

absl::Status CheckRequest(const GraphStepRequest& request) {
  const auto nodes = static_cast<int64_t>(request.graph->nodes.size());
  if (request.devices < 1 || request.micro_batches < 1 || request.chunks < 0) {
    return absl::InvalidArgumentError(absl::StrCat("got ", Counted(request.devices, "device"), ", ",
                                                   Counted(request.micro_batches, "micro-batch"),
                                                   ", ", Counted(request.chunks, "chunk"),
                                                   "; expected 1 or more"));
  }
  if (nodes < request.devices && !request.replicate) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", Counted(nodes, "node"), ", too few for ",
        Counted(request.devices, "stage"), "; give at most ", Counted(nodes, "device")));
  }
  return ValidateEqualMachines(request.machines, request.devices);
}

// The best plan with one device per stage, faster than that with several, of which it tells.
Plan WithSeveral(Plan straight, const absl::StatusOr<Plan>& several) {
  const double longer = several.ok() ? several->step_seconds / straight.step_seconds - 1 : 0;
  if (!several.ok()) {
    straight.rejected.push_back(
        {"several devices a stage", std::string(several.status().message())});
  } else if (longer <= kSame) {
    straight.rejected.push_back({"several devices a stage", "not faster"});
  } else {
    straight.rejected.insert(
        straight.rejected.begin(),
        {several->description, absl::StrFormat("+%.1f %% (best found)", 100 * longer)});
  }
  return straight;
}

// The best plan with several devices per stage, faster than all that `planner` tried with one.
Plan WithOne(Plan replicated, const GraphPlanner& planner) {
  replicated.rejected = planner.Rejected();
  for (RejectedPlan& each : replicated.rejected) each.what += ", a device per stage";
  return replicated;
}

// The better of the best plan with several devices per stage, over the cuts of `several`, and the
// best with one, over those of `work`. `seeds` as GraphPlanner takes them.
absl::StatusOr<Plan> PlanWithReplicas(const GraphStepRequest& request, const GraphWork& several,
                                      const GraphWork& work, const std::vector<GraphSeed>* seeds) {
  GraphStepRequest half = request;
  half.budget = request.budget / 2;
  double bound = 0;
  const absl::StatusOr<Plan> replicated = FindReplicatedPlan(half, several, &bound);
  if (static_cast<int>(request.graph->nodes.size()) < request.devices) {
    const bool none = absl::IsFailedPrecondition(replicated.status());
    return none ? WhyNoReplicatedPlan(request, several) : replicated;
  }
  double cutoff = kInfinity;
  if (replicated.ok()) {
    // Where it has one device for each stage after all, the planner finds it, too, and says more.
    const bool one = static_cast<int>(replicated->stages.size()) == request.devices;
    cutoff = replicated->step_seconds * (one ? 1 + kSame : 1);
  }
  GraphPlanner planner(half, work, cutoff, seeds);
  const absl::StatusOr<std::optional<Plan>> straight = planner.Run();
  if (!straight.ok() && !replicated.ok()) return straight.status();
  Plan best = straight.ok() && *straight ? WithSeveral(**straight, replicated)
                                         : WithOne(*replicated, planner);
  // Where no schedule is for several devices per stage, none of them is asked for.
  if (absl::IsInvalidArgument(replicated.status())) bound = kInfinity;
  best.SetLowerBound(std::min(planner.lower_bound(), bound));
  return best;
}

// The best plan over the cuts of `work`.
absl::StatusOr<Plan> PlanOver(const GraphStepRequest& request, const GraphWork& several,
                              const GraphWork& work, const std::vector<GraphSeed>* seeds) {
  if (request.replicate) return PlanWithReplicas(request, several, work, seeds);
  const absl::StatusOr<std::optional<Plan>> plan =
      GraphPlanner(request, work, kInfinity, seeds).Run();
  if (!plan.ok()) return plan.status();
  return **plan;
}

// All nodes in one stage, in the order of the file.
std::vector<std::vector<int>> OneStage(const ProfileGraph& graph) {
  std::vector<std::vector<int>> stages(1, std::vector<int>(graph.nodes.size()));
  std::iota(stages[0].begin(), stages[0].end(), 0);
  return stages;
}

// Of a graph with too many cuts to list: lists some around the best plan known, finds the best plan
// over them, and starts anew around that, as long as it helps.
absl::StatusOr<Plan> PlanOverSomeCuts(const GraphStepRequest& request) {
  const ProfileGraph& graph = *request.graph;
  GraphStepRequest known = request;
  known.cut_limits.all = 0;  // it is known that there are too many
  absl::StatusOr<std::vector<GraphSeed>> seeds = FindGraphSeeds(known, kInfinity);
  if (!seeds.ok()) return seeds.status();
  // Stages of several devices are looked for along the order of the file.
  const Downsets prefixes = Downsets::Prefixes(graph);
  const GraphWork along_file(graph, prefixes);
  GraphStepRequest share = request;
  share.budget = request.budget / kMostRounds;
  std::optional<Plan> best;
  double bound = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto fastest = std::min_element(
        seeds->begin(), seeds->end(),
        [](const GraphSeed& a, const GraphSeed& b) { return a.step_seconds < b.step_seconds; });
    const Downsets sets =
        ListSomeCuts(graph, fastest == seeds->end() ? OneStage(graph) : fastest->stages,
                     request.cut_limits.some);
    const GraphWork work(graph, sets);
    absl::StatusOr<Plan> plan = PlanOver(share, along_file, work, &*seeds);
    if (!plan.ok() && best) break;
    if (!plan.ok()) return plan.status();
    bound = std::max(bound, plan->lower_bound);
    const bool better = !best || plan->step_seconds < best->step_seconds * (1 - kSame);
    if (better) best = *std::move(plan);
    best->SetLowerBound(bound);
    if (!better || best->optimal || best->gap() <= request.gap || best->has_replicas()) break;
    if (request.stop && request.stop()) break;
    seeds->push_back(SeedOf(*best));
  }
  return *std::move(best);
}

}  // namespace

absl::StatusOr<Plan> FindGraphStepPlan(const GraphStepRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  const absl::StatusOr<Downsets> sets = Downsets::Enumerate(*request.graph, request.cut_limits.all);
  if (!sets.ok()) return PlanOverSomeCuts(request);
  const GraphWork work(*request.graph, *sets);
  return PlanOver(request, work, work, nullptr);
}

}  // namespace sluice
