#include "partitioner/candidate.h"

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"
#include "schedules/generators/catalogue.h"

namespace sluice {

std::string Candidate::Describe() const {
  const absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(schedule);
  if (chunks == 1 && entry.ok() && (*entry)->default_chunks == 1) return schedule;
  return absl::StrCat(schedule, ", ", Counted(chunks, "chunk"));
}

PartitionProblem ProblemOf(const Workload& workload, const Candidate& candidate,
                           const std::optional<Partition>& fixed) {
  PartitionProblem problem;
  problem.machines =
      candidate.timetable.splits_backward() ? workload.machines.Apart() : workload.machines;
  problem.timetable = &candidate.timetable;
  problem.in_flight = candidate.in_flight.get();
  problem.policies = workload.policies;
  problem.fixed = fixed;
  return problem;
}

}  // namespace sluice
