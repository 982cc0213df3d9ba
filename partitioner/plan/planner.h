#ifndef SLUICE_PARTITIONER_PLAN_PLANNER_H_
#define SLUICE_PARTITIONER_PLAN_PLANNER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/costs/cost_table.h"
#include "partitioner/exact/exact_partition.h"
#include "partitioner/problem/partition_problem.h"
#include "schedules/simulate.h"
#include "schedules/timetable.h"

namespace sluice {

enum class PlanObjective : uint8_t { kStep, kBottleneck };

// What is to be planned. `costs` stays the caller's.
struct PlanRequest {
  const CostTable* costs = nullptr;
  int devices = 1;
  int micro_batches = 1;
  std::string schedule = "auto";  // or a name of the catalogue
  int chunks = 0;                 // stages a device; 0: what suits the schedule
  std::vector<Recompute> policies = {Recompute::kNone};
  Link link;
  std::optional<int64_t> memory_limit;
  PlanObjective objective = PlanObjective::kStep;
  std::optional<Partition> partition;  // prices this one only
  // Where devices differ, as in PartitionProblem: by rank, and by stage of the timetable with one
  // stage a rank (chunks repeat it).
  std::vector<const CostTable*> rank_costs;
  std::vector<Link> rank_links;  // [rank] from a rank to the next one, the last to the first
  std::vector<int64_t> rank_memory;

  // Good enough: a plan proved to take at most this much longer, relatively, than the best.
  double gap = 0;
  // Seconds of a plan that is known: one that takes as long or longer is of no interest.
  double cutoff = std::numeric_limits<double>::infinity();
  // Elementary steps that the searches share, as SearchOptions counts them.
  int64_t budget = 600'000'000;
  // Asked now and then, from several threads; true ends the search with what it has.
  std::function<bool()> stop;
  // Only timetables with stage s on rank s mod devices, as Megatron-LM has them.
  bool round_robin = false;

  bool limits_memory() const { return memory_limit.has_value() || !rank_memory.empty(); }
  // Bytes of the device of `rank`. Requires limits_memory(), as the next one.
  int64_t memory_of(int rank) const {
    return rank_memory.empty() ? *memory_limit : rank_memory[rank];
  }
  // Of the smallest device.
  int64_t least_memory() const {
    return rank_memory.empty() ? *memory_limit
                               : *std::min_element(rank_memory.begin(), rank_memory.end());
  }
};

// A schedule that was tried and not taken, or that could not be.
struct RejectedPlan {
  std::string what;  // "interleaved, 2 chunks"
  std::string why;   // "+3.1 % (best found; proved slower)"
};

// One plan, everything about it, and what is proved of it.
struct Plan {
  PlanObjective objective = PlanObjective::kStep;
  std::string schedule;     // of the catalogue; "auto" for an order made for these costs
  std::string description;  // for people: "interleaved, 2 chunks"
  int devices = 1;
  int chunks = 1;
  int micro_batches = 1;
  Timetable timetable;
  StageAssignment assignment;
  std::vector<RangeCost> stages;  // [stage]
  StepCosts stage_costs;
  Simulation simulation;
  std::vector<int> in_flight;       // [stage] most micro-batches held at once
  std::vector<int64_t> peak_bytes;  // [rank]
  double step_seconds = 0;
  double bottleneck_seconds = 0;
  // Of the objective: no plan over the schedules tried takes less. Of a plan with an order of its
  // own (schedule "auto"): no plan in any order.
  double lower_bound = 0;
  bool optimal = false;
  std::vector<RejectedPlan> rejected;
  int64_t steps = 0;  // elementary steps that the search took

  // `bound` holds for the objective of every plan that was asked for.
  void SetLowerBound(double bound);
  double objective_seconds() const {
    return objective == PlanObjective::kStep ? step_seconds : bottleneck_seconds;
  }
  double gap() const { return RelativeGap(objective_seconds(), lower_bound); }
};

// No plan for `request` takes less seconds a step, whatever its schedule: its devices share all the
// work, each layer is whole, and one micro-batch must go forth and back. Infinite where not even
// all memory together is enough.
double StepFloor(const PlanRequest& request);

// Seconds of a plan that is quick to find, by 1F1B or the one schedule that was asked for; infinite
// where none of the few tried fits.
double QuickSeconds(const PlanRequest& request);

// The best plan over the schedules asked for: of two equally fast ones, the one with fewer
// activations in flight. Deterministic. InvalidArgument when the request makes no sense (names
// what); NotFound when there is a cutoff and nothing is below it; FailedPrecondition when nothing
// fits: names the stage that needs most in the leanest plan, and how much memory would do;
// DeadlineExceeded when it was stopped before anything that fits was found. Runs on as many threads
// as oneTBB gives; the answer does not depend on how many.
absl::StatusOr<Plan> MakePlan(const PlanRequest& request);

// The plan whose fullest device needs the least memory, whatever the limit (the least there is
// where devices have one stage each, a local optimum where they have several). Without a bound.
// InvalidArgument as MakePlan.
absl::StatusOr<Plan> MakeLeanestPlan(const PlanRequest& request);
// The FailedPrecondition for a limit that even `leanest` does not meet.
absl::Status NothingFits(const Plan& leanest, int64_t limit);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLAN_PLANNER_H_
