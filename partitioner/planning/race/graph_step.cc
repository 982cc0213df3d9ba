#include "partitioner/planning/race/graph_step.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
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
#include "partitioner/plan_request.h"
#include "partitioner/planning/candidates.h"
#include "partitioner/planning/least_memory_plan.h"
#include "partitioner/planning/plan.h"
#include "partitioner/planning/race/graph_chain.h"
#include "partitioner/planning/race/graph_contestant.h"
#include "partitioner/planning/race/graph_stage.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/planning/race/race.h"
#include "partitioner/planning/race/replicated_plan.h"
#include "partitioner/search/graph_partition.h"
#include "partitioner/search/graph_step_search.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

constexpr int64_t kMostCuts = 4'000'000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Seconds within this of each other, relatively, are the same to people.
constexpr double kSame = 1e-6;
constexpr size_t kManyNodes = 128;
// Of the budget, for plans along one order of the nodes.
constexpr int64_t kShareOfSeeds = 32;

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

std::vector<int> OrderOfFile(const ProfileGraph& graph) {
  std::vector<int> order(graph.nodes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  return order;
}

// Stage by stage of the partition with the least bottleneck; empty where none fits.
std::vector<int> OrderOfBottleneck(const GraphStepRequest& request) {
  GraphRequest bottleneck;
  bottleneck.graph = request.graph;
  bottleneck.devices = request.devices;
  bottleneck.bandwidth = request.link.bandwidth;
  bottleneck.memory = request.memory;
  const absl::StatusOr<GraphPlan> plan = FindGraphPartition(bottleneck);
  std::vector<int> order;
  if (!plan.ok()) return order;
  for (const GraphStage& stage : plan->stages) {
    order.insert(order.end(), stage.nodes.begin(), stage.nodes.end());
  }
  return order;
}

// Tries every timetable that a request allows for the stages of a graph.
class GraphStepPlanner {
 public:
  // Plans that take `cutoff` seconds or longer are of no interest.
  GraphStepPlanner(const GraphStepRequest& request, const GraphWork& work,
                   double cutoff = kInfinity)
      : request_(request),
        cutoff_(cutoff),
        work_(work),
        race_({.cutoff = cutoff,
               .gap = request.gap,
               .budget = request.budget - request.budget / kShareOfSeeds,
               .stop = request.stop}) {}

  // Nothing where no plan was found below the cutoff.
  absl::StatusOr<std::optional<Plan>> Run() {
    const std::vector<int> in_file = OrderOfFile(*request_.graph);
    const auto chain = ChainOf(*request_.graph);
    if (!chain.ok()) return chain.status();
    const PlanRequest along = AlongChain(*chain);
    bool stopped = false;
    absl::StatusOr<std::vector<Candidate>> candidates = ListCandidates(along, &refused_, &stopped);
    if (!candidates.ok()) return candidates.status();
    candidates_ = *std::move(candidates);
    if (stopped) lower_bound_ = EvenSeconds();
    for (const Candidate& candidate : candidates_) {
      order_.push_back(&contestants_.emplace_back(candidate, ProblemOf(candidate)));
    }
    // Bounds are tighter with one stage per device: what these find helps with the others.
    std::stable_partition(order_.begin(), order_.end(),
                          [](const auto* each) { return each->candidate().chunks == 1; });
    if (absl::Status status = Seed(SeedOf(*chain), in_file); !status.ok()) return status;
    SeedBottleneck(in_file);
    if (absl::Status status = Search(); !status.ok()) return status;
    if (race_.best() == nullptr && cutoff_ < kInfinity) return std::nullopt;
    if (race_.best() == nullptr) return WhyNothing(along);
    return Finish();
  }

  // After Run(): no plan that fits takes less.
  double lower_bound() const { return lower_bound_; }

  // The closest to the best one first, then what could not be had.
  std::vector<RejectedPlan> Rejected() const {
    std::vector<const GraphContestant*> others;
    for (const GraphContestant* each : order_) {
      if (each != race_.best()) others.push_back(each);
    }
    std::stable_sort(others.begin(), others.end(), [](const auto* a, const auto* b) {
      return a->result.seconds < b->result.seconds;
    });
    std::vector<RejectedPlan> rejected;
    rejected.reserve(others.size() + refused_.size());
    for (const GraphContestant* other : others) {
      rejected.push_back({other->candidate().Describe(), WhyNot(*other)});
    }
    rejected.insert(rejected.end(), refused_.begin(), refused_.end());
    return rejected;
  }

 private:
  // All the work shared evenly: no schedule takes less.
  double EvenSeconds() const {
    const int whole = work_.whole();
    return request_.micro_batches * (work_.forward[whole] + work_.backward[whole]) /
           request_.devices;
  }

  PlanRequest AlongChain(std::shared_ptr<const CostTable> chain) const {
    PlanRequest along;
    along.machines.costs = std::move(chain);
    along.devices = request_.devices;
    along.micro_batches = request_.micro_batches;
    along.schedule = request_.schedule;
    along.chunks = request_.chunks;
    along.machines.link = request_.link;
    if (std::isfinite(request_.memory)) {
      along.machines.memory_limit =
          static_cast<int64_t>(std::max(1.0, std::floor(request_.memory)));
    }
    along.gap = request_.gap;
    along.budget = request_.budget / kShareOfSeeds;
    along.cutoff = cutoff_;
    along.stop = request_.stop;
    return along;
  }

  // Several stages per device along an order of hundreds of nodes take longer than all the rest,
  // and are seldom the best.
  PlanRequest SeedOf(std::shared_ptr<const CostTable> chain) const {
    PlanRequest along = AlongChain(std::move(chain));
    const bool many = request_.graph->nodes.size() > kManyNodes;
    if (many && along.schedule == "auto" && along.chunks == 0) along.chunks = 1;
    return along;
  }

  GraphStepProblem ProblemOf(const Candidate& candidate) const {
    GraphStepProblem problem;
    problem.work = &work_;
    problem.timetable = &candidate.timetable;
    problem.in_flight = candidate.in_flight.get();
    problem.link = request_.link;
    problem.memory = request_.memory;
    return problem;
  }

  // The best plan along one order of the nodes is something to beat.
  absl::Status Seed(const PlanRequest& along, const std::vector<int>& order) {
    const absl::StatusOr<std::optional<Plan>> plan = MakePlanBelowCutoff(along);
    if (!plan.ok()) {
      const bool nothing =
          absl::IsFailedPrecondition(plan.status()) || absl::IsDeadlineExceeded(plan.status());
      return nothing ? absl::OkStatus() : plan.status();
    }
    if (!*plan) return absl::OkStatus();
    for (GraphContestant* each : order_) {
      const Candidate& candidate = each->candidate();
      if (candidate.schedule != (*plan)->schedule || candidate.chunks != (*plan)->chunks) continue;
      each->Know(CutsAlong(work_, (*plan)->partition(), order));
      race_.Take(each);
    }
    return absl::OkStatus();
  }

  void SeedBottleneck(const std::vector<int>& in_file) {
    const std::vector<int> order = OrderOfBottleneck(request_);
    if (order.empty() || order == in_file) return;
    const auto chain = ChainOf(InOrder(*request_.graph, order));
    if (chain.ok()) Seed(SeedOf(*chain), order).IgnoreError();  // as good as none
  }

  absl::Status Search() {
    race_.Run({order_.begin(), order_.end()});
    for (const GraphContestant& each : contestants_) {
      if (each.result.outcome == RaceOutcome::kRefused) return each.result.why;
      lower_bound_ = std::min(lower_bound_, each.result.lower_bound);
    }
    return absl::OkStatus();
  }

  // Names the plan that needs least memory along the order of the file; another may need less.
  absl::Status WhyNothing(const PlanRequest& along) const {
    const bool proved = std::all_of(contestants_.begin(), contestants_.end(),
                                    [](const auto& each) { return each.result.complete; });
    if (!proved) {
      return absl::DeadlineExceededError(
          "the search ended before it found anything that fits; give it more time or memory");
    }
    const absl::StatusOr<Plan> leanest = MakeLeastMemoryPlan(along);
    if (!leanest.ok()) return leanest.status();
    const std::vector<int64_t>& bytes = leanest->peak_bytes;
    const auto fullest = std::max_element(bytes.begin(), bytes.end());
    return absl::FailedPreconditionError(
        absl::StrCat("no plan fits into ", DescribeMemory(*along.machines.memory_limit),
                     " a device; ", leanest->description, " along the order of the file needs ",
                     DescribeMemory(*fullest), ", most of it on device ", fullest - bytes.begin()));
  }

  std::string WhyNot(const GraphContestant& contestant) const {
    const bool none = race_.best() == nullptr;
    const double best = none ? cutoff_ : race_.best()->result.seconds;
    const bool proved = contestant.ProvedNoBetter(best);
    // What was found on the way to a proof that all take longer is no good measure of them.
    if (!contestant.result.found() || (none && cutoff_ < kInfinity)) {
      if (!proved) return "nothing better found; not proved slower";
      return std::isinf(request_.memory) ? "proved slower" : "does not fit, or is proved slower";
    }
    return WhyLonger(contestant.result.seconds, best, proved);
  }

  PlanStage StageOf(const GraphContestant& best, int s) const {
    const GraphStepProblem& problem = best.problem();
    const GraphCuts& cuts = best.cuts();
    PlanStage stage =
        ToPlanStage(work_.StageBetween(cuts[s], cuts[s + 1]), problem.timetable->placement.rank(s));
    stage.in_flight = problem.in_flight->peak(s);
    return stage;
  }

  absl::StatusOr<std::optional<Plan>> Finish() const {
    const auto& best = static_cast<const GraphContestant&>(*race_.best());
    const GraphStepProblem& problem = best.problem();
    Plan plan;
    plan.devices = request_.devices;
    plan.micro_batches = request_.micro_batches;
    plan.cuts = work_.sets.size() - 2;
    plan.timetable = *problem.timetable;
    plan.stage_costs = problem.Costs(best.cuts());
    absl::StatusOr<Simulation> run = Simulate(plan.timetable, plan.stage_costs);
    if (!run.ok()) return run.status();
    plan.schedule = best.candidate().schedule;
    plan.description = best.candidate().Describe();
    plan.chunks = best.candidate().chunks;
    plan.step_seconds = run->makespan;
    plan.bubble = run->bubble;
    plan.simulation = *std::move(run);
    std::vector<double> busy(request_.devices);
    for (int s = 0; s < problem.stages(); ++s) {
      const PlanStage& stage = plan.stages.emplace_back(StageOf(best, s));
      busy[stage.rank] += stage.cost.forward + stage.cost.backward();
    }
    for (int rank = 0; rank < request_.devices; ++rank) {
      plan.peak_bytes.push_back(WholeBytes(problem.RankBytes(rank, best.cuts())));
    }
    plan.bottleneck_seconds = *std::max_element(busy.begin(), busy.end());
    plan.SetLowerBound(lower_bound_);
    plan.rejected = Rejected();
    return plan;
  }

  const GraphStepRequest& request_;
  const double cutoff_;
  const GraphWork& work_;
  std::vector<Candidate> candidates_;
  std::deque<GraphContestant> contestants_;
  std::vector<GraphContestant*> order_;  // in which they race
  std::vector<RejectedPlan> refused_;
  Race race_;
  double lower_bound_ = kInfinity;
};

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
Plan WithOne(Plan replicated, const GraphStepPlanner& planner) {
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
  GraphStepPlanner planner(half, work, cutoff);
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
  const absl::StatusOr<std::optional<Plan>> plan = GraphStepPlanner(request, work).Run();
  if (!plan.ok()) return plan.status();
  return **plan;
}

}  // namespace sluice
