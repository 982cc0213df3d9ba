#ifndef SLUICE_PARTITIONER_REPLICA_PROBLEM_H_
#define SLUICE_PARTITIONER_REPLICA_PROBLEM_H_

#include <vector>

#include "partitioner/cuts/graph_work.h"
#include "partitioner/machines.h"
#include "schedules/timetable.h"

namespace sluice {

// A graph cut into stages, each on several devices that share out its micro-batches in turn
// (StageDeal). Pointers stay the caller's.
struct ReplicaProblem {
  const GraphWork* work = nullptr;
  int devices = 1;
  int micro_batches = 1;
  Machines machines;  // all alike, without costs
  // Of `devices` ranks with a stage each, and a flush: what NarrowTimetable takes rows from.
  std::vector<Timetable> wide;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_REPLICA_PROBLEM_H_
