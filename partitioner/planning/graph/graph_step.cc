#include "partitioner/planning/graph/graph_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/spec/units.h"
#include "partitioner/candidate.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/graph_plan.h"
#include "partitioner/graph_problem.h"
#include "partitioner/planning/graph/graph_chain.h"
#include "partitioner/planning/graph/graph_contestant.h"
#include "partitioner/planning/graph/graph_planner.h"
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
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

constexpr int64_t kMostCuts = 4'000'000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Seconds within this of each other, relatively, are the same to people.
constexpr double kSame = 1e-6;

absl::Status CheckRequest(const GraphStepRequest& request) {
  const auto nodes = static_cast<int64_t>(request.graph->nodes.size());
  if (request.devices < 1 || request.micro_batches < 1 || request.chunks < 0) {
    return absl::InvalidArgumentError(absl::StrCat("got ", request.devices, " devices, ",
                                                   request.micro_batches, " micro-batches, ",
                                                   request.chunks, " chunks; expected 1 or more"));
  }
  if (nodes < request.devices && !request.replicate) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", nodes, " nodes, too few for ",
                                                   request.devices, " stages; give at most ", nodes,
                                                   " devices"));
  }
  const Link& link = request.link;
  if (!(link.latency >= 0) || !std::isfinite(link.latency) || !(link.bandwidth > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("the link has a latency of ", link.latency,
                                                   " s and a bandwidth of ", link.bandwidth,
                                                   " B/s; expected at least 0, and more than 0"));
  }
  if (!(request.memory > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory must be positive, not ", request.memory));
  }
  return absl::OkStatus();
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
  for (RejectedPlan& each : replicated.rejected) each.what += ", a device a stage";
  return replicated;
}

// The better of the best plan with several devices per stage, and the best with one.
absl::StatusOr<Plan> PlanWithReplicas(const GraphStepRequest& request, const GraphWork& work) {
  GraphStepRequest half = request;
  half.budget = request.budget / 2;
  double bound = 0;
  const absl::StatusOr<Plan> replicated = FindReplicatedPlan(half, work, &bound);
  if (static_cast<int>(request.graph->nodes.size()) < request.devices) {
    const bool none = absl::IsFailedPrecondition(replicated.status());
    return none ? WhyNoReplicatedPlan(request, work) : replicated;
  }
  double cutoff = kInfinity;
  if (replicated.ok()) {
    // Where it has one device for each stage after all, the planner finds it, too, and says more.
    const bool one = static_cast<int>(replicated->stages.size()) == request.devices;
    cutoff = replicated->step_seconds * (one ? 1 + kSame : 1);
  }
  GraphPlanner planner(half, work, cutoff);
  const absl::StatusOr<std::optional<Plan>> straight = planner.Run();
  if (!straight.ok() && !replicated.ok()) return straight.status();
  Plan best = straight.ok() && *straight ? WithSeveral(**straight, replicated)
                                         : WithOne(*replicated, planner);
  // Where no schedule is for several devices per stage, none of them is asked for.
  if (absl::IsInvalidArgument(replicated.status())) bound = kInfinity;
  best.SetLowerBound(std::min(planner.lower_bound(), bound));
  return best;
}

}  // namespace

absl::StatusOr<Plan> FindGraphStepPlan(const GraphStepRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  const absl::StatusOr<Downsets> sets = Downsets::Enumerate(*request.graph, kMostCuts);
  if (!sets.ok()) return sets.status();
  const GraphWork work(*request.graph, *sets);
  if (request.replicate) return PlanWithReplicas(request, work);
  const absl::StatusOr<std::optional<Plan>> plan = GraphPlanner(request, work).Run();
  if (!plan.ok()) return plan.status();
  return **plan;
}

}  // namespace sluice
