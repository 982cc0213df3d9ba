#ifndef SLUICE_PARTITIONER_CANDIDATE_H_
#define SLUICE_PARTITIONER_CANDIDATE_H_

#include <memory>
#include <optional>
#include <string>

#include "partitioner/memory/in_flight.h"
#include "partitioner/partition_problem.h"
#include "partitioner/workload.h"
#include "schedules/partition.h"
#include "schedules/timetable.h"

namespace sluice {

// A timetable that a plan could use.
struct Candidate {
  std::string schedule;
  int chunks = 1;
  Timetable timetable;
  std::shared_ptr<const InFlight> in_flight;

  std::string Describe() const;  // "1f1b", "interleaved, 2 chunks"
};

// Which stages of `workload` suit `candidate`'s timetable best, or with `fixed` what this partition
// takes. Points into `candidate`.
PartitionProblem ProblemOf(const Workload& workload, const Candidate& candidate,
                           const std::optional<Partition>& fixed = std::nullopt);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CANDIDATE_H_
