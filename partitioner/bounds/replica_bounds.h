#ifndef SLUICE_PARTITIONER_BOUNDS_REPLICA_BOUNDS_H_
#define SLUICE_PARTITIONER_BOUNDS_REPLICA_BOUNDS_H_

#include <vector>

#include "partitioner/replica_problem.h"

namespace sluice {

// What a stage makes a step take at least, in seconds, but for the messages at earlier cuts.
struct ReplicaStageBounds {
  double there = 0;    // and those messages once
  double back = 0;     // and those messages twice
  double through = 0;  // and the messages at all other cuts twice
};

// What one stage of several devices says about every pipeline that it is part of.
//
// A stage takes f seconds forward and b backward for each micro-batch, what lies before it F and B,
// everything F' and B'. Each of its r devices has c = m / r of the m micro-batches, and the sum of
// its gradients over them takes G. Others wait for the share i of a backward: all of it, or half
// where W is an action of its own. With the messages at the cuts on the way, a step lasts at least
//   there:    F + c (f + b) + G
//     The first micro-batch comes to the stage, a device works on all of its own, and the gradients
//     are summed.
//   back:     F + c (f + i b) + i B
//     The same, but the last gradient goes back through what lies before.
//   through:  F' + i B' + (c - 1) max(f, i b)
//     One micro-batch goes through everything and back. None of the stage's backwards starts before
//     one has been to the end, and none goes on before its forward, so the c - 1 others go through
//     the stage one way besides.
class ReplicaBounds {
 public:
  // `problem` must outlive it.
  explicit ReplicaBounds(const ReplicaProblem& problem);

  // The numbers of devices that a stage may have: divisors of the micro-batches, ascending.
  const std::vector<int>& divisors() const { return divisors_; }
  // Seconds of a message at the cut `set`; 0 at both ends.
  double SendSeconds(int set) const;
  // Seconds of the sum of gradients over the devices of the stage between two cuts.
  double ReduceSeconds(int from, int to, int replicas) const;
  ReplicaStageBounds BoundsOf(int from, int to, int replicas) const;
  // The largest of them.
  double StageBound(int from, int to, int replicas) const;
  // Whether a device has memory for the stage with `in_flight` micro-batches.
  bool StageFits(int from, int to, int in_flight) const;
  // Whether `replicas` devices that follow `before` others can hold it, by any timetable.
  bool CanFit(int from, int to, int before, int replicas) const;

 private:
  void CountInFlight();

  const ReplicaProblem& problem_;
  const GraphWork& work_;
  bool fused_ = true;  // every backward is one action, in all of `wide`
  double memory_ = 0;  // bytes of a device, where they are limited
  std::vector<int> divisors_;
  // [devices before][replicas] the fewest micro-batches that a device can hold at its fullest;
  // empty where memory is not limited.
  std::vector<std::vector<int>> least_in_flight_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_REPLICA_BOUNDS_H_
