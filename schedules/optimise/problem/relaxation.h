#ifndef SLUICE_SCHEDULES_OPTIMISE_PROBLEM_RELAXATION_H_
#define SLUICE_SCHEDULES_OPTIMISE_PROBLEM_RELAXATION_H_

#include <vector>

#include "schedules/optimise/problem/problem.h"

namespace sluice::optimise {

// The problem without the constraint that a rank does one thing at a time: every action starts as
// soon as what it needs is there. It needs its inputs; the end of the same op of its stage for the
// micro-batch before; and, for F, memory: on a rank that can hold n micro-batches, F of micro-batch
// k waits for the end of I (W) of micro-batch k - n, at its own stage and at the others of its rank.
// In every timetable each action starts at or after its `head` here, and at least its `tail` passes
// from its end until the objective is reached.
class Relaxation {
 public:
  explicit Relaxation(const Problem& problem);

  struct Times {
    std::vector<double> forward, input_grad, weight_grad;  // [cell]
  };
  const Problem& problem() const { return problem_; }
  const Times& heads() const { return heads_; }
  const Times& tails() const { return tails_; }
  // F(stage, k) must follow I(`of`, k - to_gradient) and W(`of`, k - to_weight). A value of
  // micro_batches means that there is no such constraint.
  struct Room {
    int of;
    int to_gradient;
    int to_weight;
  };
  // [stage] what its F waits for.
  const std::vector<std::vector<Room>>& rooms() const { return rooms_; }

 private:
  void FindRooms();
  Room RoomFor(int stage, int of) const;
  void FindHeads();
  void FindTails();

  const Problem& problem_;
  std::vector<std::vector<Room>> rooms_;
  Times heads_, tails_;
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_PROBLEM_RELAXATION_H_
