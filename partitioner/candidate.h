#ifndef SLUICE_PARTITIONER_CANDIDATE_H_
#define SLUICE_PARTITIONER_CANDIDATE_H_

#include <memory>
#include <string>

#include "partitioner/memory/in_flight.h"
#include "partitioner/partition_problem.h"
#include "partitioner/plan_request.h"
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

// The question that `candidate`'s timetable poses. Points into `candidate`.
PartitionProblem ProblemOf(const PlanRequest& request, const Candidate& candidate);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CANDIDATE_H_
