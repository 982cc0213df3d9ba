#ifndef SLUICE_PARTITIONER_GRAPH_PROBLEM_H_
#define SLUICE_PARTITIONER_GRAPH_PROBLEM_H_

#include "partitioner/cuts/graph_work.h"
#include "partitioner/machines.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/step_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// Stages cut out of a graph and run by a timetable. Pointers stay the caller's.
struct GraphStepProblem {
  const GraphWork* work = nullptr;
  const Timetable* timetable = nullptr;  // compute-only, valid, of one copy
  const InFlight* in_flight = nullptr;   // of it
  Machines machines;                     // without costs

  int stages() const { return timetable->placement.stages(); }
  // What the message after `stage` travels over: no seconds for any bytes within one rank, and
  // after the last stage, which sends none.
  Link LinkAfter(int stage) const;
  StepCosts Costs(const GraphCuts& cuts) const;
  // Most bytes that `rank` holds with its stages as cut (those not cut yet count as empty): four
  // copies of the parameters, and each micro-batch's activations from F to the end of B, or of W.
  double RankBytes(int rank, const GraphCuts& cuts) const;
  // The same for a stage as if it were alone on its rank.
  double StageBytes(int stage, int from, int to) const;
  // Whether a rank has memory for its stages as cut, a stage for itself, and all ranks for theirs.
  bool RankFits(int rank, const GraphCuts& cuts) const {
    return !machines.limits_memory() ||
           RankBytes(rank, cuts) <= static_cast<double>(machines.MemoryOf(rank));
  }
  bool StageFits(int stage, int from, int to) const {
    return !machines.limits_memory() ||
           StageBytes(stage, from, to) <=
               static_cast<double>(machines.MemoryOf(timetable->placement.rank(stage)));
  }
  bool Fits(const GraphCuts& cuts) const;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_GRAPH_PROBLEM_H_
