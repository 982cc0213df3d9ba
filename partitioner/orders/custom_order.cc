#include "partitioner/orders/custom_order.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/orders/custom_order_trials.h"
#include "partitioner/orders/full_rank_cut.h"
#include "partitioner/orders/recompute_choice.h"
#include "partitioner/search/local_search.h"
#include "schedules/optimise/dispatch/dispatch.h"
#include "schedules/optimise/optimise.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice {
namespace {

constexpr int kChunks = 2;
// Actions of a timetable: with fewer the catalogue is searched exactly in no time, with more the
// dispatches would take the time that a search over many settings has for all of them.
constexpr int64_t kFewActions = 2'000;
constexpr int64_t kManyActions = 1'000'000;
// With more, schedules/optimise takes seconds and finds nothing faster than the rules do: none in
// bench/plan_search, whose timetables have 50 thousand actions and more.
constexpr int64_t kManyToOptimise = 20'000;
// Of so many of the rows, those near them are tried as well; then those near the best of these,
// again and again, until one more time saves less than this share of its seconds, or so many
// actions have been dispatched: a second's work or less for each million of them.
constexpr size_t kCentres = 3;
constexpr double kWorthARound = 0.001;
constexpr int64_t kMostDispatched = 30'000'000;
// Of schedules/optimise. Steps of eight plans of 70B on 16 to 32 H100 and H200 are up to 2.6 %
// shorter with 4 than with 1, in up to 2.5 times the time; 8 finds little more.
constexpr double kEffort = 4;
// How often a plan is ordered anew, with other stages each time; the least share of its seconds
// that each time must save; and the actions that are simulated to find those stages.
constexpr int kMostTurns = 6;
constexpr double kWorthATurn = 0.001;
constexpr int64_t kMostMoves = 40'000'000;

// Of one timetable.
int64_t Actions(const Workload& workload) {
  return int64_t{3} * kChunks * workload.devices * workload.micro_batches;
}

bool WorthTrying(const Workload& workload, bool few_actions) {
  const int64_t actions = Actions(workload);
  return workload.machines.rank_costs.empty() && workload.devices > 1 &&
         few_actions == (actions < kFewActions) && actions <= kManyActions &&
         workload.machines.costs->layer_count() >= kChunks * workload.devices;
}

// A cut and what its stages recompute; an empty partition where a policy is not allowed or the
// layers do not work out.
struct Layout {
  PlacedCut cut;
  std::vector<Recompute> recompute;
};

Layout Lay(const Workload& workload, const CustomOrderTrial& trial) {
  const std::vector<Recompute>& allowed = workload.policies;
  const auto may = [&](Recompute policy) {
    return std::find(allowed.begin(), allowed.end(), policy) != allowed.end();
  };
  if (!may(trial.everywhere)) return {};
  Layout layout{LeastCut(workload, trial.full, trial.front_share), {}};
  if (layout.cut.partition.empty()) return layout;
  layout.recompute =
      trial.fit > 0
          ? RecomputeToFit(workload, layout.cut, trial.fit, trial.longer)
          : RecomputeInSpareTime(*workload.machines.costs, layout.cut.partition, trial.everywhere,
                                 may(trial.in_spare_time) ? trial.in_spare_time : trial.everywhere);
  return layout;
}

Candidate Unordered(const Workload& workload, const Placement& placement, int chunks) {
  Candidate candidate{kCustomOrder, chunks, {}, nullptr};
  candidate.timetable.placement = placement;
  candidate.timetable.micro_batches = workload.micro_batches;
  return candidate;
}

// A stage that recomputes keeps more for its W than its F kept: W is to run right after I.
bool Prompt(const RangeCost& stage) { return stage.weight_grad_bytes > stage.activation_bytes; }

// Bytes that a rank may hold besides what it always holds, and the work area of one action.
std::vector<double> RoomOf(const PartitionProblem& problem, const std::vector<RangeCost>& stages) {
  std::vector<double> room;
  const Placement& placement = problem.timetable->placement;
  for (int rank = 0; problem.machines.limits_memory() && rank < placement.ranks(); ++rank) {
    std::vector<RangeCost> of_rank;
    int64_t work_area = 0;
    for (int stage : placement.StagesOf(rank)) {
      of_rank.push_back(stages[stage]);
      work_area = std::max(work_area, stages[stage].workspace_bytes);
    }
    const int64_t bytes = problem.machines.MemoryOf(rank) - ParameterBytes(of_rank) - work_area;
    room.push_back(static_cast<double>(bytes));
  }
  return room;
}

// A timetable of the problem's placement for these stages.
OptimiseRequest Wanted(const PartitionProblem& problem, const std::vector<RangeCost>& stages) {
  OptimiseRequest wanted;
  wanted.placement = problem.timetable->placement;
  wanted.micro_batches = problem.timetable->micro_batches;
  wanted.costs = ToStepCosts(problem, stages);
  wanted.limits.bytes = RoomOf(problem, stages);
  return wanted;
}

// Whether the ranks have room for the micro-batches that are on their way when the busiest rank
// never waits: each stage holds those that start while one goes on to the last stage and comes
// back.
bool MayKeepBusy(const optimise::Problem& problem) {
  const double cycle = optimise::BusiestWork(problem);
  for (const optimise::MemoryRule& rule : problem.memory) {
    std::vector<double> held(problem.ranks);
    double trip = 0;
    for (int s = problem.stages - 1; s >= 0; --s) {
      trip += problem.forward[s] + problem.input_grad[s];
      const int rank = problem.placement.rank(s);
      held[rank] += rule.held[s] * std::min<double>(trip / cycle, problem.micro_batches);
      if (held[rank] > rule.limit[rank] - rule.reserve[rank]) return false;
    }
  }
  return true;
}

// The dispatcher's answer to a trial.
struct Answer {
  CustomOrderTrial trial;
  Candidate candidate;  // unordered
  StageAssignment assignment;
  optimise::Problem problem;
  optimise::Schedule schedule;  // value kNever: not even one micro-batch fits
};

Answer DispatchTrial(const Workload& workload, const CustomOrderLimits& limits,
                     const CustomOrderTrial& trial) {
  Answer answer;
  answer.trial = trial;
  if (limits.stop && limits.stop()) return answer;
  const Layout layout = Lay(workload, trial);
  if (layout.cut.partition.empty()) return answer;
  answer.assignment = {layout.cut.partition, layout.recompute};
  answer.candidate = Unordered(workload, layout.cut.placement, kChunks);
  const PartitionProblem shape = ProblemOf(workload, answer.candidate);
  const std::vector<RangeCost> stages = PriceStages(shape, answer.assignment);
  absl::StatusOr<optimise::Problem> problem = optimise::MakeProblem(Wanted(shape, stages));
  if (!problem.ok()) return answer;
  answer.problem = *std::move(problem);
  std::vector<char> prompt_weights;
  for (const RangeCost& stage : stages) prompt_weights.push_back(Prompt(stage));
  if (!MayKeepBusy(answer.problem)) return answer;
  answer.schedule = optimise::Dispatch(answer.problem, trial.rules, prompt_weights);
  return answer;
}

// All of the step, since what lacks memory only shows after a while.
std::vector<Answer> DispatchAll(const Workload& workload, const CustomOrderLimits& limits,
                                absl::Span<const CustomOrderTrial> trials) {
  std::vector<Answer> answers(trials.size());
  ParallelFor(trials.size(),
              [&](size_t i) { answers[i] = DispatchTrial(workload, limits, trials[i]); });
  return answers;
}

Candidate Ordered(int chunks, Timetable timetable) {
  Candidate candidate{kCustomOrder, chunks, std::move(timetable), nullptr};
  candidate.timetable.name = kCustomOrder;
  candidate.in_flight = std::make_shared<const InFlight>(candidate.timetable);
  return candidate;
}

// Nothing where it does not fit or is not below the cutoff.
std::optional<CustomOrder> Make(const Workload& workload, double cutoff, Candidate ordered,
                                const StageAssignment& assignment) {
  CustomOrder made{std::move(ordered), assignment, 0};
  const Candidate& candidate = made.candidate;
  const PartitionProblem problem = ProblemOf(workload, candidate);
  const std::vector<RangeCost> stages = PriceStages(problem, made.assignment);
  absl::StatusOr<StepModel> model = StepModel::Compile(candidate.timetable);
  if (!model.ok() || !Feasible(problem).Fits(stages)) return std::nullopt;
  made.seconds = model->Makespan(ToStepCosts(problem, stages));
  if (made.seconds >= cutoff) return std::nullopt;
  return made;
}

// Tries rounds of trials, and keeps the fastest order that fits.
class Trials {
 public:
  Trials(const Workload& workload, const CustomOrderLimits& limits)
      : workload_(workload), limits_(limits) {}

  std::optional<CustomOrder> Run() {
    std::vector<CustomOrderTrial> centres = Try(CustomOrderTrials());
    while (left_ > 0 && !centres.empty() && seconds() > limits_.enough) {
      std::vector<CustomOrderTrial> near;
      for (const CustomOrderTrial& centre : centres) {
        for (const CustomOrderTrial& trial : TrialsNear(centre)) near.push_back(trial);
      }
      const double before = seconds();
      Try(near);
      centres.clear();
      if (seconds() < before * (1 - kWorthARound)) centres.push_back(*trial_);
    }
    if (seconds() >= limits_.cutoff) return std::nullopt;
    return std::move(order_);
  }

 private:
  double seconds() const { return order_ ? order_->seconds : optimise::kNever; }

  // The most promising of them.
  std::vector<CustomOrderTrial> Try(absl::Span<const CustomOrderTrial> trials) {
    std::vector<Answer> answers = DispatchAll(workload_, limits_, trials);
    std::stable_sort(answers.begin(), answers.end(), [](const Answer& a, const Answer& b) {
      return a.schedule.value < b.schedule.value;
    });
    std::vector<CustomOrderTrial> promising;
    for (const Answer& answer : answers) {
      if (answer.schedule.value == optimise::kNever) break;
      left_ -= Actions(workload_);
      if (promising.size() < kCentres) promising.push_back(answer.trial);
    }
    TakeFastest(answers);
    return promising;
  }

  void TakeFastest(const std::vector<Answer>& answers) {
    for (const Answer& answer : answers) {
      if (answer.schedule.value >= seconds()) return;
      // Bytes are counted more finely here than the dispatcher does.
      std::optional<CustomOrder> made =
          Make(workload_, seconds(),
               Ordered(answer.candidate.chunks,
                       optimise::TimetableOf(answer.problem, answer.schedule.order)),
               answer.assignment);
      if (!made) continue;
      order_ = std::move(made);
      trial_ = answer.trial;
      return;
    }
  }

  const Workload& workload_;
  const CustomOrderLimits& limits_;
  int64_t left_ = kMostDispatched;  // actions
  std::optional<CustomOrder> order_;
  std::optional<CustomOrderTrial> trial_;  // that made it
};

// The timetable that schedules/optimise finds for these stages; the candidate's is a first try.
std::optional<CustomOrder> OrderAnew(const Workload& workload, const Candidate& candidate,
                                     const StageAssignment& assignment,
                                     const CustomOrderLimits& limits) {
  const Candidate unordered = Unordered(workload, candidate.timetable.placement, candidate.chunks);
  const PartitionProblem shape = ProblemOf(workload, unordered);
  const std::vector<RangeCost> stages = PriceStages(shape, assignment);
  OptimiseRequest wanted = Wanted(shape, stages);
  wanted.seeds = {candidate.timetable};
  wanted.stop = limits.stop;
  wanted.effort = kEffort;
  absl::StatusOr<OptimisedTimetable> best = OptimiseTimetable(wanted);
  if (!best.ok() || best->run.makespan >= limits.cutoff) return std::nullopt;
  return Make(workload, limits.cutoff, Ordered(candidate.chunks, std::move(best->table)),
              assignment);
}

// Other stages for the timetable, where they make it faster; whether there are any.
bool MoveLayers(const Workload& workload, const CustomOrderLimits& limits, CustomOrder* order) {
  const PartitionProblem problem = ProblemOf(workload, order->candidate);
  absl::StatusOr<StepModel> model = StepModel::Compile(order->candidate.timetable);
  if (!model.ok()) return false;
  int64_t steps = 0;
  TimedAssignment moved = Improve(problem, Feasible(problem), {order->assignment, order->seconds},
                                  kMostMoves, &*model, &steps, limits.stop);
  if (moved.seconds >= order->seconds) return false;
  order->assignment = std::move(moved.assignment);
  order->seconds = moved.seconds;
  return true;
}

}  // namespace

std::optional<CustomOrder> FindCustomOrder(const Workload& workload,
                                           const CustomOrderLimits& limits) {
  if (!WorthTrying(workload, limits.few_actions)) return std::nullopt;
  return Trials(workload, limits).Run();
}

std::optional<CustomOrder> FindBetterOrder(const Workload& workload, const Candidate& candidate,
                                           const StageAssignment& assignment,
                                           const CustomOrderLimits& limits) {
  const Timetable& own = candidate.timetable;
  const int64_t actions = int64_t{3} * own.placement.stages() * own.micro_batches;
  if (own.updates != WeightUpdates::kFlush || own.placement.copies() > 1 ||
      actions > kManyToOptimise) {
    return std::nullopt;
  }
  std::optional<CustomOrder> best = OrderAnew(workload, candidate, assignment, limits);
  for (int turn = 1; best && turn < kMostTurns; ++turn) {
    if (!MoveLayers(workload, limits, &*best)) break;
    CustomOrderLimits shorter = limits;
    shorter.cutoff = best->seconds * (1 - kWorthATurn);
    std::optional<CustomOrder> next =
        OrderAnew(workload, best->candidate, best->assignment, shorter);
    if (!next) break;
    best = std::move(next);
  }
  return best;
}

}  // namespace sluice
