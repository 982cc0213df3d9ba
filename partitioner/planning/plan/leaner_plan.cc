#include "partitioner/planning/plan/leaner_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planning/plan/plan_builder.h"
#include "schedules/partition.h"

namespace sluice {
namespace {

// Changes of one plan of which the run is counted.
constexpr size_t kMostChanges = 16;

using Visit = absl::FunctionRef<void(StageAssignment)>;

// `now` with a layer more or less in `stage`. Where a layer changes its place, what suited the
// recomputing of both stages before need not do so any longer: one policy for all is tried, too.
void VisitMoves(const PartitionProblem& problem, const StageAssignment& now, int stage,
                Visit visit) {
  const auto move = [&](int from, int to) {
    if (from == to || now.partition[from].size() == 1) return;
    const Partition moved = MoveLayer(now.partition, from, to);
    visit({moved, now.recompute});
    for (const Recompute policy : problem.policies)
      visit({moved, std::vector<Recompute>(moved.size(), policy)});
  };
  for (int other = 0; other < problem.stages(); ++other) {
    move(stage, other);
    move(other, stage);
  }
}

// `now` with another policy in `stage`.
void VisitPolicies(const PartitionProblem& problem, const StageAssignment& now, int stage,
                   Visit visit) {
  for (const Recompute policy : problem.policies) {
    if (policy == now.recompute[stage]) continue;
    StageAssignment changed = now;
    changed.recompute[stage] = policy;
    visit(std::move(changed));
  }
}

// Bytes of the ranks, the fullest first: of ranks that are equally full, one is made leaner first.
std::vector<int64_t> FullestFirst(std::vector<int64_t> peaks) {
  std::sort(peaks.begin(), peaks.end(), std::greater<>());
  return peaks;
}

struct Change {
  StageAssignment assignment;
  std::vector<int64_t> peaks;  // FullestFirst, estimated
};

// The changes of the fullest rank of `plan` that promise most, the best first: a rank is taken to
// need as much more than its layers declare as it does now.
std::vector<Change> ChangesOf(const PartitionProblem& problem, const Plan& plan) {
  const auto declared = [&problem](const StageAssignment& assignment) {
    return PeakBytes(*problem.in_flight, PriceStages(problem, assignment));
  };
  const StageAssignment now = AssignmentOf(plan);
  const std::vector<int64_t> declared_now = declared(now);
  std::vector<Change> best;
  const auto keep = [&](StageAssignment assignment) {
    std::vector<int64_t> peaks = declared(assignment);
    for (size_t rank = 0; rank < peaks.size(); ++rank)
      peaks[rank] += plan.peak_bytes[rank] - declared_now[rank];
    Change change{std::move(assignment), FullestFirst(std::move(peaks))};
    const auto at =
        std::upper_bound(best.begin(), best.end(), change,
                         [](const Change& a, const Change& b) { return a.peaks < b.peaks; });
    best.insert(at, std::move(change));
    if (best.size() > kMostChanges) best.pop_back();
  };
  const auto fullest = std::max_element(plan.peak_bytes.begin(), plan.peak_bytes.end());
  const int rank = static_cast<int>(fullest - plan.peak_bytes.begin());
  for (const int stage : problem.timetable->placement.StagesOf(rank)) {
    VisitPolicies(problem, now, stage, keep);
    if (!problem.fixed) VisitMoves(problem, now, stage, keep);
  }
  return best;
}

}  // namespace

bool FitsInto(const Machines& machines, const Plan& plan) {
  if (!machines.limits_memory()) return true;
  for (size_t rank = 0; rank < plan.peak_bytes.size(); ++rank) {
    if (plan.peak_bytes[rank] > machines.MemoryOf(static_cast<int>(rank))) return false;
  }
  return true;
}

absl::Status MakeLeaner(const PlanRequest& request, const Candidate& candidate,
                        const std::function<absl::Status(Plan*)>& count, int64_t* actions,
                        Plan* plan) {
  const PartitionProblem problem = ProblemOf(request, candidate, request.partition);
  const int64_t actions_each = candidate.timetable.action_count();
  for (bool leaner = true;
       leaner && *actions >= actions_each && !FitsInto(request.machines, *plan);) {
    leaner = false;
    for (const Change& change : ChangesOf(problem, *plan)) {
      if (*actions < actions_each) break;
      *actions -= actions_each;
      absl::StatusOr<Plan> changed = BuildPlan(request, candidate, change.assignment);
      if (!changed.ok()) return changed.status();
      if (absl::Status status = count(&*changed); !status.ok()) return status;
      leaner = FullestFirst(changed->peak_bytes) < FullestFirst(plan->peak_bytes);
      if (!leaner) continue;
      *plan = *std::move(changed);
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
