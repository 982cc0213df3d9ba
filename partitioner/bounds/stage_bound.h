#ifndef SLUICE_PARTITIONER_BOUNDS_STAGE_BOUND_H_
#define SLUICE_PARTITIONER_BOUNDS_STAGE_BOUND_H_

#include <algorithm>

namespace sluice {

// What makes a step wait for one stage, in seconds.
struct StageWaits {
  double in = 0;       // until the first micro-batch has come through all before it
  double chained = 0;  // of its rank on all micro-batches: F and I
  double weights = 0;  // the same: W
  double tail = 0;     // after the last gradient
  double out = 0;      // until the last gradient has gone back through all before it
};

// What a step takes at least because of them: only weight gradients, where the timetable has them
// as actions of their own (`splits`), may run while the last gradient goes back.
inline double StageBound(const StageWaits& waits, bool splits) {
  const double before = waits.in + waits.chained;
  if (splits) return before + std::max(waits.weights + waits.tail, waits.out);
  return before + waits.weights + std::max(waits.tail, waits.out);
}

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_STAGE_BOUND_H_
