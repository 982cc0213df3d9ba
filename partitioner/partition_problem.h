#ifndef SLUICE_PARTITIONER_PARTITION_PROBLEM_H_
#define SLUICE_PARTITIONER_PARTITION_PROBLEM_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/cost_table.h"
#include "partitioner/in_flight.h"
#include "partitioner/partition.h"
#include "schedules/simulate.h"
#include "schedules/timetable.h"

namespace sluice {

// The way between two neighbouring ranks, in each direction.
struct Link {
  double latency = 0;                                          // seconds
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second

  double Seconds(int64_t bytes) const { return latency + static_cast<double>(bytes) / bandwidth; }
};

// One timetable for which layers are to be cut into stages. Pointers stay the caller's and must
// outlive it.
struct PartitionProblem {
  const CostTable* costs = nullptr;
  const Timetable* timetable = nullptr;  // compute-only, valid
  Link link;
  std::optional<int64_t> memory_limit;                   // bytes of each device
  std::vector<Recompute> policies = {Recompute::kNone};  // what a stage may choose from
  std::optional<Partition> fixed;                        // only this one; policies are still chosen

  int stages() const { return timetable->placement.stages(); }
};

// A partition with what its stages recompute.
struct StageAssignment {
  Partition partition;
  std::vector<Recompute> recompute;  // [stage]
};

// InvalidArgument when there are more stages than layers, no policies, or a link or limit that
// makes no sense.
absl::Status ValidateProblem(const PartitionProblem& problem);

// [stage] what each stage costs.
std::vector<RangeCost> PriceStages(const PartitionProblem& problem,
                                   const StageAssignment& assignment);
// The same as Simulate() takes it: messages priced by the link, free between stages of one rank.
StageCosts ToStageCosts(const PartitionProblem& problem, const std::vector<RangeCost>& stages);
// [rank] bytes at the fullest moment.
std::vector<int64_t> PeakBytes(const InFlight& in_flight, const std::vector<RangeCost>& stages);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PARTITION_PROBLEM_H_
