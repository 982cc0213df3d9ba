#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/costs/layer_cost.h"
#include "partitioner/cuts/cost_table.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/partition_answer.h"
#include "schedules/simulate/simulate.h"
#include "schedules/timetable.h"

namespace sluice {

// A schedule, or a way to use the devices, that was tried and not taken, or that could not be had.
struct RejectedPlan {
  std::string what;  // "interleaved, 2 chunks"
  std::string why;   // "+3.1 % (best found; proved slower)"
};

// One stage of a plan: what it holds, which ranks run it and what it costs.
struct PlanStage {
  std::vector<int> layers;  // of a chain, or nodes of a graph: ascending
  int rank = 0;             // the first of its replicas
  int replicas = 1;         // ranks that run its micro-batches in turn
  Recompute recompute = Recompute::kNone;
  // Of one micro-batch, on one rank. The output of the last stage goes nowhere. On a graph the
  // parameter bytes are those of the weights alone.
  RangeCost cost;
  int in_flight = 1;  // the most micro-batches that one rank holds at once
};

// One plan of a chain of layers or of a graph of operations, and what is proved of it.
struct Plan {
  PlanObjective objective = PlanObjective::kStep;
  // Of the catalogue; kCustomOrder for an order made for these costs; empty where a graph is cut for
  // the bottleneck alone. Such a plan has no timetable either, and so no simulation, step, bubble
  // or stage_costs; the number of each of its stages stands for the rank.
  std::string schedule;
  std::string description;  // for people: "interleaved, 2 chunks"
  int devices = 1;          // ranks of one pipeline
  int chunks = 1;
  int micro_batches = 1;
  Timetable timetable;  // compute-only; with one row per stage where stages have replicas
  std::vector<PlanStage> stages;
  StepCosts stage_costs;
  Simulation simulation;            // of the ranks, every action
  std::vector<int64_t> peak_bytes;  // [rank]
  double step_seconds = 0;
  // Where ranks audit each other: the part of step_seconds that this takes, in the mean over the steps
  // from one audit to the next, and of peak_bytes, [rank]; else 0, and empty.
  double audit_seconds = 0;
  std::vector<int64_t> audit_bytes;
  double bubble = 0;
  double bottleneck_seconds = 0;  // the most that a rank, or an edge, takes for one micro-batch
  // Of the objective: no plan over the schedules tried takes less. Of a plan with an order of its
  // own: no plan in any order.
  double lower_bound = 0;
  bool optimal = false;
  int64_t cuts = 0;      // of a graph: the ways to cut it in two that were considered
  bool all_cuts = true;  // there are no others
  std::vector<RejectedPlan> rejected;
  int64_t steps = 0;  // elementary steps that the search took

  bool has_schedule() const { return !schedule.empty(); }
  bool has_replicas() const;  // whether any stage has several
  // The layers of each stage, which must be neighbours.
  Partition partition() const;
  // `bound` holds for the objective of every plan that was asked for.
  void SetLowerBound(double bound);
  double objective_seconds() const {
    return objective == PlanObjective::kStep ? step_seconds : bottleneck_seconds;
  }
  double gap() const { return RelativeGap(objective_seconds(), lower_bound); }
  // Of a step, on the rank that takes longest: the exchange of gradients between the first and the
  // last stage, which have weights in common. 0 where one rank has both, or they have none.
  double tied_exchange_seconds() const;
  // Bytes of the rank that needs most.
  int64_t largest_peak_bytes() const;
};

// The recompute policy of each stage and its layers, which must be neighbours.
StageAssignment AssignmentOf(const Plan& plan);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_H_
