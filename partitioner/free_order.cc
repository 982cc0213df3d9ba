#include "partitioner/free_order.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "partitioner/feasible.h"
#include "partitioner/plan_builder.h"
#include "partitioner/step_model.h"
#include "partitioner/v_cut.h"
#include "schedules/optimise/dispatch.h"

namespace sluice {
namespace {

constexpr int kChunks = 2;
// Actions of a timetable: with fewer the catalogue is searched exactly in no time, with more the
// dispatches would take the time that a search over many settings has for all of them.
constexpr int64_t kFewActions = 50'000;
constexpr int64_t kManyActions = 1'000'000;

// Where the layers of a rank are, what stages recompute and what ranks with time to spare do, and
// the order.
struct Trial {
  double front_share;  // as FullRanksFirst takes it
  Recompute everywhere, in_spare_time;
  optimise::DispatchRules rules;
};

constexpr double kHalf = 0.5, kLess = 0.3;
constexpr Recompute kNone = Recompute::kNone, kSelective = Recompute::kSelective,
                    kFull = Recompute::kFull;

constexpr optimise::DispatchRules Slow(double slowness, int spare) {
  return {.slowness = slowness, .spare = spare, .late_weights = 30, .way_patience = 0.3};
}

// The optimiser's long search finds little better.
constexpr Trial kTrials[] = {
    // Where there is room: as much in flight as it is likely to allow.
    {kHalf, kNone, kNone, {.in_flight = 2.75, .forward_first = true, .late_share = 2}},
    {kHalf, kNone, kNone, {.in_flight = 3, .forward_first = true}},
    {kHalf, kNone, kSelective, Slow(2.5, 20)},
    {kHalf, kNone, kSelective, Slow(3, 4)},
    // Little room: first stages are short, and hold less.
    {kLess, kNone, kSelective, Slow(3, 0)},
    {kLess, kNone, kSelective, Slow(2.6, 4)},
    {kLess, kNone, kSelective, Slow(1.6, 4)},
    {kLess, kNone, kSelective, Slow(1.4, 0)},
    {kLess, kNone, kNone, Slow(2.6, 0)},
    // Room for nothing else.
    {kHalf, kSelective, kSelective, Slow(2, 4)},
    {kHalf, kFull, kFull, {.in_flight = 3, .forward_first = true}},
    {kHalf, kFull, kFull, Slow(3, 4)},
};

bool WorthTrying(const PlanRequest& request) {
  const int64_t actions = int64_t{3} * kChunks * request.devices * request.micro_batches;
  return request.schedule == "auto" && request.chunks == 0 && !request.partition &&
         request.objective == PlanObjective::kStep && request.rank_costs.empty() &&
         request.rank_memory.empty() && request.devices > 1 && actions >= kFewActions &&
         actions <= kManyActions && request.costs->layer_count() >= kChunks * request.devices;
}

StageAssignment Assign(const PlanRequest& request, const Trial& trial) {
  const std::vector<Recompute>& allowed = request.policies;
  const auto may = [&](Recompute policy) {
    return std::find(allowed.begin(), allowed.end(), policy) != allowed.end();
  };
  if (!may(trial.everywhere)) return {};
  StageAssignment assignment{LeastFullRanksFirst(request, trial.front_share), {}};
  assignment.recompute =
      RecomputeInSpareTime(*request.costs, assignment.partition, trial.everywhere,
                           may(trial.in_spare_time) ? trial.in_spare_time : trial.everywhere);
  return assignment;
}

Candidate Unordered(const PlanRequest& request) {
  Candidate candidate{"auto", kChunks, {}, nullptr};
  candidate.timetable.placement = Placement::V(request.devices, kChunks);
  candidate.timetable.micro_batches = request.micro_batches;
  return candidate;
}

// A stage that recomputes keeps more for its W than its F kept: W is to run right after I.
bool Prompt(const RangeCost& stage) { return stage.weight_grad_bytes > stage.activation_bytes; }

// Bytes that a rank may hold besides what it always holds; between I and a prompt W that is more.
std::vector<double> RoomOf(const PartitionProblem& problem, const std::vector<RangeCost>& stages) {
  std::vector<double> room;
  const Placement& placement = problem.timetable->placement;
  for (int rank = 0; problem.limits_memory() && rank < placement.ranks(); ++rank) {
    int64_t always = 0, sometimes = 0;
    for (int stage : placement.StagesOf(rank)) {
      const RangeCost& cost = stages[stage];
      always += cost.parameter_bytes;
      sometimes = std::max(
          {sometimes, cost.workspace_bytes, cost.weight_grad_bytes - cost.activation_bytes});
    }
    room.push_back(static_cast<double>(problem.MemoryOf(rank) - always - sometimes));
  }
  return room;
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
      if (held[rank] > rule.limit[rank]) return false;
    }
  }
  return true;
}

// The dispatcher's answer to a trial.
struct Answer {
  StageAssignment assignment;
  optimise::Problem problem;
  optimise::Schedule schedule;  // value kNever: not even one micro-batch fits
};

Answer DispatchTrial(const PlanRequest& request, const Trial& trial) {
  Answer answer;
  if (request.stop && request.stop()) return answer;
  answer.assignment = Assign(request, trial);
  if (answer.assignment.partition.empty()) return answer;
  const Candidate unordered = Unordered(request);
  const PartitionProblem shape = ProblemOf(request, unordered);
  const std::vector<RangeCost> stages = PriceStages(shape, answer.assignment);
  OptimiseRequest wanted;
  wanted.placement = unordered.timetable.placement;
  wanted.micro_batches = request.micro_batches;
  wanted.costs = ToStepCosts(shape, stages);
  wanted.limits.bytes = RoomOf(shape, stages);
  absl::StatusOr<optimise::Problem> problem = optimise::MakeProblem(wanted);
  if (!problem.ok()) return answer;
  answer.problem = *std::move(problem);
  for (const RangeCost& stage : stages) answer.problem.prompt.push_back(Prompt(stage));
  if (!MayKeepBusy(answer.problem)) return answer;
  answer.schedule = optimise::Dispatch(answer.problem, trial.rules);
  return answer;
}

// Nothing where it does not fit or is not below the cutoff.
std::optional<FreeOrder> Make(const PlanRequest& request, const Answer& answer) {
  if (answer.schedule.value >= request.cutoff) return std::nullopt;
  FreeOrder made{Unordered(request), answer.assignment, 0};
  Candidate& candidate = made.candidate;
  candidate.timetable = optimise::TimetableOf(answer.problem, answer.schedule.order);
  candidate.timetable.name = "auto";
  candidate.in_flight = std::make_shared<const InFlight>(candidate.timetable);
  const PartitionProblem problem = ProblemOf(request, candidate);
  const std::vector<RangeCost> stages = PriceStages(problem, made.assignment);
  absl::StatusOr<StepModel> model = StepModel::Compile(candidate.timetable);
  if (!model.ok() || !Feasible(problem).Fits(stages)) return std::nullopt;
  made.seconds = model->Makespan(ToStepCosts(problem, stages));
  if (made.seconds >= request.cutoff) return std::nullopt;
  return made;
}

}  // namespace

std::optional<FreeOrder> FindFreeOrder(const PlanRequest& request) {
  if (!WorthTrying(request)) return std::nullopt;
  // All of the step, since what lacks memory only shows after a while.
  std::vector<Answer> answers(std::size(kTrials));
  tbb::parallel_for(size_t{0}, answers.size(),
                    [&](size_t i) { answers[i] = DispatchTrial(request, kTrials[i]); });
  const auto best = std::min_element(
      answers.begin(), answers.end(),
      [](const auto& a, const auto& b) { return a.schedule.value < b.schedule.value; });
  return Make(request, *best);
}

}  // namespace sluice
