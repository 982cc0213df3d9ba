#include "partitioner/free_order.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "partitioner/feasible.h"
#include "partitioner/plan_builder.h"
#include "partitioner/step_model.h"
#include "schedules/optimise/dispatch.h"

namespace sluice {
namespace {

constexpr int kChunks = 2;
// Actions of a timetable: with fewer the catalogue is searched exactly in no time, with more the
// dispatches would take the time that a search over many settings has for all of them.
constexpr int64_t kFewActions = 50'000;
constexpr int64_t kManyActions = 250'000;
// How much longer than its floor the work of the fullest rank may be, and in which steps it is
// tried.
constexpr double kMostOverFloor = 1.1;
constexpr double kNextMost = 1.005;
constexpr double kRounding = 1e-9;

// As much in flight as memory is likely to allow, and less; the optimiser's long search finds
// little better.
constexpr optimise::DispatchRules kRules[] = {
    {.in_flight = 2.75, .forward_first = true, .late_share = 2},
    {.in_flight = 3, .forward_first = true},
    {.in_flight = 2.25, .forward_first = true, .late_share = 2},
    {.in_flight = 1.5, .forward_first = false},
};

bool WorthTrying(const PlanRequest& request) {
  const int64_t actions = int64_t{3} * kChunks * request.devices * request.micro_batches;
  return request.schedule == "auto" && request.chunks == 0 && !request.partition &&
         request.objective == PlanObjective::kStep && request.rank_costs.empty() &&
         request.rank_memory.empty() && request.devices > 1 && actions >= kFewActions &&
         actions <= kManyActions && request.costs->layer_count() >= kChunks * request.devices;
}

// The cut whose fullest rank works least, as far as that is found by trying.
Partition CutOf(const PlanRequest& request) {
  std::vector<double> work;
  for (const LayerCost& layer : request.costs->layers()) {
    work.push_back(layer.forward_seconds + layer.input_grad_seconds + layer.weight_grad_seconds);
  }
  const double floor = StepFloor(request) / request.micro_batches;
  for (double most = floor; most < floor * kMostOverFloor; most *= kNextMost) {
    Partition partition = FullRanksFirst(work, request.devices, most * (1 + kRounding));
    if (!partition.empty()) return partition;
  }
  return {};
}

// Bytes that a rank may hold besides what it always holds.
std::vector<double> RoomOf(const PartitionProblem& problem, const std::vector<RangeCost>& stages) {
  std::vector<double> room;
  const Placement& placement = problem.timetable->placement;
  for (int rank = 0; problem.limits_memory() && rank < placement.ranks(); ++rank) {
    int64_t always = 0, workspace = 0;
    for (int stage : placement.StagesOf(rank)) {
      always += stages[stage].parameter_bytes;
      workspace = std::max(workspace, stages[stage].workspace_bytes);
    }
    room.push_back(static_cast<double>(problem.MemoryOf(rank) - always - workspace));
  }
  return room;
}

// Of layers first..end - 1, the seconds of `front` from the front and the rest of `count` from the
// back; `before` are sums of seconds.
double WorkOf(const std::vector<double>& before, int first, int end, int front, int count) {
  return before[first + front] - before[first] + before[end] - before[end - (count - front)];
}

// How many of them come from the front, so that both stages work about as long; where that is open,
// fewer, since more is in flight there.
int FrontOf(const std::vector<double>& before, int first, int end, int count) {
  int best = 1;
  double least = 0;
  for (int front = 1; front < count; ++front) {
    const double here = before[first + front] - before[first];
    const double apart = std::abs(WorkOf(before, first, end, front, count) - 2 * here);
    if (front > 1 && apart >= least * (1 - kRounding)) continue;
    best = front;
    least = apart;
  }
  return best;
}

}  // namespace

Partition FullRanksFirst(const std::vector<double>& work, int ranks, double most) {
  std::vector<double> before = {0};  // [layer] seconds of the layers before it
  for (double seconds : work) before.push_back(before.back() + seconds);
  Partition down, up;
  int first = 0, end = static_cast<int>(work.size());  // of the layers that are left
  for (int left = ranks; left > 0; --left) {
    for (int count = (end - first + left - 1) / left;; --count) {
      if (count < kChunks) return {};
      const int front = FrontOf(before, first, end, count);
      if (WorkOf(before, first, end, front, count) > most) continue;
      down.push_back({first, first + front - 1});
      up.push_back({end - (count - front), end - 1});
      first += front;
      end -= count - front;
      break;
    }
  }
  if (first != end) return {};
  std::move(up.rbegin(), up.rend(), std::back_inserter(down));
  return down;
}

std::optional<FreeOrder> FindFreeOrder(const PlanRequest& request) {
  if (!WorthTrying(request)) return std::nullopt;
  FreeOrder found{{"auto", kChunks, {}, nullptr}, {CutOf(request), {}}, request.cutoff};
  if (found.assignment.partition.empty()) return std::nullopt;
  found.assignment.recompute.assign(found.assignment.partition.size(), request.policies.front());
  found.candidate.timetable.placement = Placement::V(request.devices, kChunks);
  found.candidate.timetable.micro_batches = request.micro_batches;

  const PartitionProblem shape = ProblemOf(request, found.candidate);
  const std::vector<RangeCost> stages = PriceStages(shape, found.assignment);
  const StepCosts costs = ToStepCosts(shape, stages);
  OptimiseRequest wanted;
  wanted.placement = found.candidate.timetable.placement;
  wanted.micro_batches = request.micro_batches;
  wanted.costs = costs;
  wanted.limits.bytes = RoomOf(shape, stages);
  const absl::StatusOr<optimise::Problem> problem = optimise::MakeProblem(wanted);
  if (!problem.ok()) return std::nullopt;  // not even one micro-batch fits
  std::vector<optimise::Schedule> schedules(std::size(kRules));
  tbb::parallel_for(size_t{0}, schedules.size(), [&](size_t i) {
    if (!request.stop || !request.stop()) schedules[i] = optimise::Dispatch(*problem, kRules[i]);
  });
  const optimise::Schedule& best =
      *std::min_element(schedules.begin(), schedules.end(),
                        [](const auto& a, const auto& b) { return a.value < b.value; });
  if (best.value >= request.cutoff) return std::nullopt;

  found.candidate.timetable = optimise::TimetableOf(*problem, best.order);
  found.candidate.timetable.name = "auto";
  found.candidate.in_flight = std::make_shared<const InFlight>(found.candidate.timetable);
  absl::StatusOr<StepModel> model = StepModel::Compile(found.candidate.timetable);
  if (!model.ok() || !Feasible(ProblemOf(request, found.candidate)).Fits(stages)) {
    return std::nullopt;
  }
  found.seconds = model->Makespan(costs);
  if (found.seconds >= request.cutoff) return std::nullopt;
  return found;
}

}  // namespace sluice
