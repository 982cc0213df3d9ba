#ifndef SLUICE_PARTITIONER_PLAN_H_
#define SLUICE_PARTITIONER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/costs/layer_cost.h"
#include "partitioner/partition_problem.h"
#include "partitioner/plan_request.h"
#include "partitioner/search/exact_partition.h"
#include "schedules/simulate/simulate.h"
#include "schedules/timetable.h"

namespace sluice {

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

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLAN_H_
