#ifndef SLUICE_PARTITIONER_PARTITION_PROBLEM_H_
#define SLUICE_PARTITIONER_PARTITION_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/cuts/cost_table.h"
#include "partitioner/machines.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/step_costs.h"
#include "schedules/partition.h"
#include "schedules/timetable.h"

namespace sluice {

// One timetable for which layers are to be cut into stages. Pointers stay the caller's and must
// outlive it.
struct PartitionProblem {
  Machines machines;
  const Timetable* timetable = nullptr;                  // compute-only, valid
  const InFlight* in_flight = nullptr;                   // of it, where it is known already
  std::vector<Recompute> policies = {Recompute::kNone};  // what a stage may choose from
  std::optional<Partition> fixed;                        // only this one; policies are still chosen

  int stages() const { return timetable->placement.stages(); }
  int layer_count() const { return machines.costs->layer_count(); }
  const CostTable& CostsOf(int stage) const {
    return machines.CostsOf(timetable->placement.rank(stage));
  }
  // Layers first..end - 1 as `stage`, whose rank updates once what it has tied to the first layer,
  // and, where another rank has that, swaps the gradients with it.
  RangeCost Price(int stage, int first, int end, Recompute recompute) const {
    RangeCost cost = CostsOf(stage).Price(first, end, recompute);
    if (timetable->placement.rank(stage) == timetable->placement.rank(0))
      cost.UpdateTiedElsewhere();
    if (stage == 0 || stage + 1 == stages()) AddTiedExchange(stage, &cost);
    return cost;
  }
  // The way from `stage` to the next one.
  Link LinkAfter(int stage) const {
    const Placement& placement = timetable->placement;
    return machines.LinkBetween(placement.rank(stage), placement.rank(stage + 1));
  }
  // Seconds of a message of `bytes` from `stage` to the next one; 0 on one rank.
  double SendSeconds(int stage, int64_t bytes) const;

 private:
  // What the first or the last stage does once per step about the gradients of what the layers at
  // both ends have in common. Which layers are between them makes no difference.
  void AddTiedExchange(int stage, RangeCost* cost) const;
};

// A partition with what its stages recompute.
struct StageAssignment {
  Partition partition;
  std::vector<Recompute> recompute;  // [stage]
};

// InvalidArgument when there are more stages than layers, no policies, machines that
// make no sense, or more bytes than can be counted.
absl::Status ValidateProblem(const PartitionProblem& problem);

// [stage] what each stage costs.
std::vector<RangeCost> PriceStages(const PartitionProblem& problem,
                                   const StageAssignment& assignment);
// The same for a simulation: messages priced by the link, free between stages of one rank.
StepCosts ToStepCosts(const PartitionProblem& problem, const std::vector<RangeCost>& stages);
// Bytes of a rank at its fullest moment, and [rank] of all.
int64_t PeakBytes(const InFlight& in_flight, const std::vector<RangeCost>& stages, int rank);
std::vector<int64_t> PeakBytes(const InFlight& in_flight, const std::vector<RangeCost>& stages);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PARTITION_PROBLEM_H_
