#include "partitioner/planning/race/graph_step.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/spec/units.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/plan_request.h"
#include "partitioner/planning/candidates.h"
#include "partitioner/planning/leanest_plan.h"
#include "partitioner/planning/plan.h"
#include "partitioner/planning/race/graph_stage.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/planning/race/replicated_plan.h"
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

// The nodes as layers of a chain, in some order with sources first: of all cuts those before the
// k-th, k = 1, 2, ...
absl::StatusOr<std::shared_ptr<const CostTable>> ChainOf(const ProfileGraph& graph) {
  const Downsets sets = Downsets::Prefixes(graph);
  const GraphWork work(graph, sets);
  std::vector<LayerCost> layers;
  const auto bytes = [](double more, double less) { return std::llround(more - less); };
  // Prefixes are numbered by seconds and then by size: in order.
  for (int end = 1; end < sets.size(); ++end) {
    LayerCost layer;
    layer.name = absl::StrCat(end - 1);
    layer.forward_seconds = work.forward[end] - work.forward[end - 1];
    layer.input_grad_seconds = (work.backward[end] - work.backward[end - 1]) / 2;
    layer.weight_grad_seconds = layer.input_grad_seconds;
    layer.parameter_bytes = 4 * bytes(sets.parameter_bytes(end), sets.parameter_bytes(end - 1));
    layer.saved_bytes[0] = bytes(sets.activation_bytes(end), sets.activation_bytes(end - 1));
    layer.weight_grad_bytes = layer.saved_bytes[0];
    layer.output_bytes = std::llround(sets.cut_bytes(end));
    layers.push_back(std::move(layer));
  }
  return CostTable::CreateShared(std::move(layers));
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

ProfileGraph InOrder(const ProfileGraph& graph, const std::vector<int>& order) {
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  ProfileGraph sorted;
  for (const int node : order) {
    ProfileNode& added = sorted.nodes.emplace_back(graph.nodes[node]);
    for (std::vector<int>* others : {&added.sources, &added.users}) {
      for (int& other : *others) other = place[other];
      std::sort(others->begin(), others->end());
    }
  }
  return sorted;
}

// Tries one timetable after the other against the best plan so far.
class GraphStepPlanner {
 public:
  // Plans that take `cutoff` seconds or longer are of no interest.
  GraphStepPlanner(const GraphStepRequest& request, const GraphWork& work,
                   double cutoff = kInfinity)
      : request_(request), cutoff_(cutoff), work_(work) {}

  absl::StatusOr<Plan> Run() {
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
      entrants_.push_back({&candidate, ProblemOf(candidate), {}});
    }
    // Bounds are tighter with one stage a device: what these find helps with the others.
    std::stable_sort(entrants_.begin(), entrants_.end(), [](const Entrant& a, const Entrant& b) {
      return a.candidate->chunks == 1 && b.candidate->chunks > 1;
    });
    if (absl::Status status = Seed(SeedOf(*chain), in_file); !status.ok()) return status;
    SeedBottleneck(in_file);
    if (absl::Status status = Search(); !status.ok()) return status;
    if (best_ == nullptr && cutoff_ < kInfinity) return absl::NotFoundError("nothing faster found");
    if (best_ == nullptr) return WhyNothing(along);
    return Finish();
  }

  // After Run(): no plan that fits takes less.
  double lower_bound() const { return lower_bound_; }

  // The closest to the best one first, then what could not be had.
  std::vector<RejectedPlan> Rejected() const {
    std::vector<const Entrant*> others;
    for (const Entrant& entrant : entrants_) {
      if (&entrant != best_) others.push_back(&entrant);
    }
    std::stable_sort(others.begin(), others.end(), [](const Entrant* a, const Entrant* b) {
      return a->answer.seconds < b->answer.seconds;
    });
    std::vector<RejectedPlan> rejected;
    rejected.reserve(others.size() + refused_.size());
    for (const Entrant* other : others) {
      rejected.push_back({other->candidate->Describe(), WhyNot(*other)});
    }
    rejected.insert(rejected.end(), refused_.begin(), refused_.end());
    return rejected;
  }

 private:
  struct Entrant {
    const Candidate* candidate = nullptr;
    GraphStepProblem problem;
    GraphStepAnswer answer;
  };

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

  // Several stages a device along an order of hundreds of nodes take longer than all the rest, and
  // are seldom the best.
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
    const absl::StatusOr<Plan> plan = MakePlan(along);
    if (!plan.ok()) {
      const bool nothing = absl::IsFailedPrecondition(plan.status()) ||
                           absl::IsDeadlineExceeded(plan.status()) ||
                           absl::IsNotFound(plan.status());
      return nothing ? absl::OkStatus() : plan.status();
    }
    for (Entrant& entrant : entrants_) {
      const Candidate& candidate = *entrant.candidate;
      if (candidate.schedule != plan->schedule || candidate.chunks != plan->chunks) continue;
      GraphStepAnswer answer;
      answer.cuts = CutsOf(plan->partition(), order);
      answer.seconds = Seconds(entrant.problem, answer.cuts);
      Keep(std::move(answer), &entrant);
    }
    return absl::OkStatus();
  }

  void SeedBottleneck(const std::vector<int>& in_file) {
    const std::vector<int> order = OrderOfBottleneck(request_);
    if (order.empty() || order == in_file) return;
    const auto chain = ChainOf(InOrder(*request_.graph, order));
    if (chain.ok()) Seed(SeedOf(*chain), order).IgnoreError();  // as good as none
  }

  // The sets before and after each range of nodes in `order`.
  GraphCuts CutsOf(const Partition& partition, const std::vector<int>& order) const {
    const std::vector<int> prefixes = work_.sets.Along(order);
    GraphCuts cuts = {0};
    for (const LayerRange& range : partition) cuts.push_back(prefixes[range.last + 1]);
    return cuts;
  }

  static double Seconds(const GraphStepProblem& problem, const GraphCuts& cuts) {
    const absl::StatusOr<Simulation> run =
        Simulate(*problem.timetable, problem.Costs(cuts), Detail::kSummary);
    return run.ok() ? run->makespan : kInfinity;
  }

  double incumbent() const { return best_ == nullptr ? cutoff_ : best_->answer.seconds; }

  absl::Status Search() {
    int64_t left = request_.budget - request_.budget / kShareOfSeeds;
    auto waiting = static_cast<int64_t>(entrants_.size());
    for (Entrant& entrant : entrants_) {
      absl::StatusOr<std::unique_ptr<GraphStepSearch>> search =
          GraphStepSearch::Create(entrant.problem);
      if (!search.ok()) return search.status();
      SearchOptions options;
      options.cutoff = incumbent() * (1 + 2 * kProofTolerance);
      options.gap = request_.gap;
      options.budget = left / waiting--;
      options.stop = request_.stop;
      GraphStepAnswer answer = (*search)->Run(options);
      left -= std::min(left, answer.steps);
      lower_bound_ = std::min(lower_bound_, answer.lower_bound);
      Keep(std::move(answer), &entrant);
    }
    return absl::OkStatus();
  }

  void Keep(GraphStepAnswer answer, Entrant* entrant) {
    const double known = incumbent();
    const bool better = answer.seconds < entrant->answer.seconds;
    if (!better) {
      answer.cuts = std::move(entrant->answer.cuts);
      answer.seconds = entrant->answer.seconds;
    }
    entrant->answer = std::move(answer);
    if (better && entrant->answer.seconds < known * (1 - kProofTolerance)) best_ = entrant;
  }

  // Names the leanest plan along the order of the file, which another order may undercut.
  absl::Status WhyNothing(const PlanRequest& along) const {
    const bool proved = std::all_of(entrants_.begin(), entrants_.end(),
                                    [](const Entrant& each) { return each.answer.complete; });
    if (!proved) {
      return absl::DeadlineExceededError(
          "the search ended before it found anything that fits; give it more time or memory");
    }
    const absl::StatusOr<Plan> leanest = MakeLeanestPlan(along);
    if (!leanest.ok()) return leanest.status();
    const std::vector<int64_t>& bytes = leanest->peak_bytes;
    const auto fullest = std::max_element(bytes.begin(), bytes.end());
    return absl::FailedPreconditionError(
        absl::StrCat("no plan fits into ", DescribeMemory(*along.machines.memory_limit),
                     " a device; ", leanest->description, " along the order of the file needs ",
                     DescribeMemory(*fullest), ", most of it on device ", fullest - bytes.begin()));
  }

  std::string WhyNot(const Entrant& entrant) const {
    const GraphStepAnswer& answer = entrant.answer;
    const double best = incumbent();
    const bool proved = answer.complete || answer.lower_bound >= best * (1 - kProofTolerance);
    // What was found on the way to a proof that all take longer is no good measure of them.
    if (std::isinf(answer.seconds) || (best_ == nullptr && cutoff_ < kInfinity)) {
      if (!proved) return "nothing better found; not proved slower";
      return std::isinf(request_.memory) ? "proved slower" : "does not fit, or is proved slower";
    }
    const double longer = answer.seconds / best - 1;
    if (longer <= kProofTolerance) return "as fast, but keeps as much or more in flight";
    return absl::StrFormat("+%.1f %% (best found; %sproved slower)", 100 * longer,
                           proved ? "" : "not ");
  }

  PlanStage StageOf(int s) const {
    const GraphStepProblem& problem = best_->problem;
    const GraphCuts& cuts = best_->answer.cuts;
    PlanStage stage =
        ToPlanStage(work_.StageBetween(cuts[s], cuts[s + 1]), problem.timetable->placement.rank(s));
    stage.in_flight = problem.in_flight->peak(s);
    return stage;
  }

  absl::StatusOr<Plan> Finish() const {
    const GraphStepProblem& problem = best_->problem;
    Plan plan;
    plan.devices = request_.devices;
    plan.micro_batches = request_.micro_batches;
    plan.cuts = work_.sets.size() - 2;
    plan.timetable = *problem.timetable;
    plan.stage_costs = problem.Costs(best_->answer.cuts);
    absl::StatusOr<Simulation> run = Simulate(plan.timetable, plan.stage_costs);
    if (!run.ok()) return run.status();
    plan.schedule = best_->candidate->schedule;
    plan.description = best_->candidate->Describe();
    plan.chunks = best_->candidate->chunks;
    plan.step_seconds = run->makespan;
    plan.bubble = run->bubble;
    plan.simulation = *std::move(run);
    std::vector<double> busy(request_.devices);
    for (int s = 0; s < problem.stages(); ++s) {
      const PlanStage& stage = plan.stages.emplace_back(StageOf(s));
      busy[stage.rank] += stage.cost.forward + stage.cost.backward();
    }
    for (int rank = 0; rank < request_.devices; ++rank) {
      plan.peak_bytes.push_back(WholeBytes(problem.RankBytes(rank, best_->answer.cuts)));
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
  std::vector<Entrant> entrants_;  // those with the fewest in flight first
  std::vector<RejectedPlan> refused_;
  Entrant* best_ = nullptr;
  double lower_bound_ = kInfinity;
};

// The best plan with one device a stage, faster than that with several, of which it tells.
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

// The best plan with several devices a stage, faster than all that `planner` tried with one.
Plan WithOne(Plan replicated, const GraphStepPlanner& planner) {
  replicated.rejected = planner.Rejected();
  for (RejectedPlan& each : replicated.rejected) each.what += ", a device a stage";
  return replicated;
}

// The better of the best plan with several devices a stage, and the best with one.
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
  const absl::StatusOr<Plan> straight = planner.Run();
  if (!straight.ok() && !replicated.ok()) return straight.status();
  Plan best = straight.ok() ? WithSeveral(*straight, replicated) : WithOne(*replicated, planner);
  // Where no schedule is for several devices a stage, none of them is asked for.
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
  return request.replicate ? PlanWithReplicas(request, work)
                           : GraphStepPlanner(request, work).Run();
}

}  // namespace sluice
