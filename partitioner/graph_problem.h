#ifndef SLUICE_PARTITIONER_GRAPH_PROBLEM_H_
#define SLUICE_PARTITIONER_GRAPH_PROBLEM_H_

#include "partitioner/costs/link.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/step_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// Stages cut out of a graph and run by a timetable. Pointers stay the caller's.
struct GraphStepProblem {
  const GraphWork* work = nullptr;
  const Timetable* timetable = nullptr;  // compute-only, valid, of one copy
  const InFlight* in_flight = nullptr;   // of it
  Link link;
  double memory = 0;  // bytes of each device; infinite without a limit

  int stages() const { return timetable->placement.stages(); }
  // Seconds of the message after `stage` where `set` lies before the cut; 0 on one rank.
  double SendSeconds(int stage, int set) const;
  StepCosts Costs(const GraphCuts& cuts) const;
  // Most bytes that `rank` holds with its stages as cut (those not cut yet count as empty): four
  // copies of the parameters, and each micro-batch's activations from F to the end of B, or of W.
  double RankBytes(int rank, const GraphCuts& cuts) const;
  // The same for a stage as if it were alone on its rank.
  double StageBytes(int stage, int from, int to) const;
  bool Fits(const GraphCuts& cuts) const;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_GRAPH_PROBLEM_H_
