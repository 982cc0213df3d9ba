#include "partitioner/planning/graph/graph_planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/planning/graph/graph_chain.h"
#include "partitioner/planning/graph/graph_stage.h"
#include "partitioner/planning/plan/least_memory_plan.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PlanStage StageOf(const GraphWork& work, const GraphContestant& best, int s) {
  const GraphStepProblem& problem = best.problem();
  const GraphCuts& cuts = best.cuts();
  PlanStage stage =
      ToPlanStage(work.StageBetween(cuts[s], cuts[s + 1]), problem.timetable->placement.rank(s));
  stage.in_flight = problem.in_flight->peak(s);
  return stage;
}

}  // namespace

GraphPlanner::GraphPlanner(const GraphStepRequest& request, const GraphWork& work, double cutoff,
                           const std::vector<GraphSeed>* seeds)
    : request_(request),
      cutoff_(cutoff),
      work_(work),
      seeds_(seeds),
      race_({.cutoff = cutoff,
             .gap = request.gap,
             .budget = request.budget - request.budget / kShareOfSeeds,
             .stop = request.stop}),
      lower_bound_(EvenSeconds()) {}

absl::StatusOr<std::optional<Plan>> GraphPlanner::Run() {
  const auto chain = ChainOf(*request_.graph);
  if (!chain.ok()) return chain.status();
  const PlanRequest along = AlongChain(request_, *chain, cutoff_);
  if (absl::Status status = Enter(along); !status.ok()) return status;
  if (absl::Status status = TakeSeeds(); !status.ok()) return status;
  if (absl::Status status = Search(); !status.ok()) return status;
  if (race_.best() == nullptr && cutoff_ < kInfinity) return std::nullopt;
  if (race_.best() == nullptr) return WhyNothing(along);
  return Finish();
}

// The contestants, and the order in which they race.
absl::Status GraphPlanner::Enter(const PlanRequest& along) {
  bool stopped = false;
  absl::StatusOr<std::vector<Candidate>> candidates = ListCandidates(along, &refused_, &stopped);
  all_entered_ = !stopped;
  if (!candidates.ok()) {
    if (all_entered_) lower_bound_ = kInfinity;  // there is none
    return candidates.status();
  }
  candidates_ = *std::move(candidates);
  for (const Candidate& candidate : candidates_) {
    order_.push_back(&contestants_.emplace_back(candidate, ProblemOf(candidate)));
  }
  // Bounds are tighter with one stage per device: what these find helps with the others.
  std::stable_partition(order_.begin(), order_.end(),
                        [](const auto* each) { return each->candidate().chunks == 1; });
  return absl::OkStatus();
}

std::vector<RejectedPlan> GraphPlanner::Rejected() const {
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

// All the work shared evenly: no schedule takes less.
double GraphPlanner::EvenSeconds() const {
  const int whole = work_.whole();
  return request_.micro_batches * (work_.forward[whole] + work_.backward[whole]) / request_.devices;
}

GraphStepProblem GraphPlanner::ProblemOf(const Candidate& candidate) const {
  GraphStepProblem problem;
  problem.work = &work_;
  problem.timetable = &candidate.timetable;
  problem.in_flight = candidate.in_flight.get();
  problem.machines = request_.machines;
  return problem;
}

// The best plans along one order of the nodes are something to beat.
absl::Status GraphPlanner::TakeSeeds() {
  std::vector<GraphSeed> found;
  if (seeds_ == nullptr) {
    absl::StatusOr<std::vector<GraphSeed>> seeds = FindGraphSeeds(request_, cutoff_);
    if (!seeds.ok()) return seeds.status();
    found = *std::move(seeds);
  }
  for (const GraphSeed& seed : seeds_ == nullptr ? found : *seeds_) {
    const GraphCuts cuts = CutsBetween(work_, seed.stages);
    if (cuts.empty()) continue;
    for (GraphContestant* each : order_) {
      const Candidate& candidate = each->candidate();
      if (candidate.schedule != seed.schedule || candidate.chunks != seed.chunks) continue;
      each->Know(cuts);
      race_.Take(each);
    }
  }
  return absl::OkStatus();
}

absl::Status GraphPlanner::Search() {
  race_.Run({order_.begin(), order_.end()});
  double bound = all_entered_ ? kInfinity : lower_bound_;
  for (const GraphContestant& each : contestants_) {
    if (each.result.outcome == RaceOutcome::kRefused) return each.result.why;
    bound = std::min(bound, each.result.lower_bound);
  }
  lower_bound_ = bound;
  return absl::OkStatus();
}

// Names the plan that needs least memory along the order of the file; another may need less.
absl::Status GraphPlanner::WhyNothing(const PlanRequest& along) const {
  const bool proved = std::all_of(contestants_.begin(), contestants_.end(),
                                  [](const auto& each) { return each.result.complete; });
  if (!proved && !work_.sets.all()) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the graph can be cut in more than ", request_.cut_limits.all, " ways; along the ",
        work_.sets.size() - 2, " that were tried nothing fits into ",
        DescribeMemory(request_.machines.least_memory()),
        " per device, which proves nothing of the others: give more memory, or merge nodes that "
        "belong together"));
  }
  if (!proved) {
    return absl::DeadlineExceededError(
        "the search ended before it found anything that fits; give it more time or memory");
  }
  const absl::StatusOr<LeanestPlan> leanest = MakeLeastMemoryPlan(along);
  if (absl::IsDeadlineExceeded(leanest.status())) return NothingFits(*along.machines.memory_limit);
  if (!leanest.ok()) return leanest.status();
  const std::vector<int64_t>& bytes = leanest->plan.peak_bytes;
  const auto fullest = std::max_element(bytes.begin(), bytes.end());
  return absl::FailedPreconditionError(absl::StrCat(
      "no plan fits into ", DescribeMemory(*along.machines.memory_limit), " per device; ",
      leanest->plan.description, " along the order of the file needs ", DescribeMemory(*fullest),
      ", most of it on device ", fullest - bytes.begin()));
}

std::string GraphPlanner::WhyNot(const GraphContestant& contestant) const {
  const bool none = race_.best() == nullptr;
  const double best = none ? cutoff_ : race_.best()->result.seconds;
  const bool proved = contestant.ProvedNoBetter(best);
  // What was found on the way to a proof that all take longer is no good measure of them.
  if (!contestant.result.found() || (none && cutoff_ < kInfinity)) {
    if (!proved) return "nothing better found; not proved slower";
    return request_.machines.limits_memory() ? "does not fit, or is proved slower"
                                             : "proved slower";
  }
  return WhyLonger(contestant.result.seconds, best, proved);
}

absl::StatusOr<std::optional<Plan>> GraphPlanner::Finish() const {
  const auto& best = static_cast<const GraphContestant&>(*race_.best());
  const GraphStepProblem& problem = best.problem();
  Plan plan;
  plan.devices = request_.devices;
  plan.micro_batches = request_.micro_batches;
  plan.cuts = work_.sets.size() - 2;
  plan.all_cuts = work_.sets.all();
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
    const PlanStage& stage = plan.stages.emplace_back(StageOf(work_, best, s));
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

}  // namespace sluice
