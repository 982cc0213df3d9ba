#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_STATE_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_STATE_H_

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "schedules/optimise/dispatch.h"
#include "schedules/optimise/problem.h"

namespace sluice::optimise {

// All ranks along one clock: what has run, what has arrived, what is held. Rules that choose what a
// rank runs next stand on this.
class DispatchState {
 public:
  explicit DispatchState(const Problem& problem);

  // Calls decide(rank, now) whenever a rank is free and something it may wait for has happened,
  // until nothing more will. Decide calls Start, WaitUntil, or neither where it waits for arrivals
  // that are not known yet.
  Schedule Run(const std::function<void(int, double)>& decide);

  // Runs the stage's next F, I or W on the free rank; a prompt W with its I.
  void Start(int rank, Op op, int stage, double now);
  void WaitUntil(int rank, double time) { events_.emplace(time, rank); }

  // Started so far: the next one's micro-batch.
  int forwards(int stage) const { return forwards_[stage]; }
  int gradients(int stage) const { return gradients_[stage]; }
  int weights(int stage) const { return weights_[stage]; }
  // When the stage's next F (I) has its input; kNever: none is left, or nobody has begun to make
  // it.
  double ForwardArrival(int stage) const;
  double GradientArrival(int stage) const;

  // Whether F of `stage` has room now.
  bool Fits(int rank, int stage) const { return memory_[rank].Fits(stage); }
  // With several stages a rank must not fill up with micro-batches that then lack room for their
  // later stages. It stays safe when, with every F that it starts, each micro-batch in flight on it
  // could still get through once all before it are done.
  bool Safe(int rank, int stage) const;

  double cycle() const { return cycle_; }              // the busiest rank's work on one micro-batch
  double idle(int rank) const { return idle_[rank]; }  // after its first action

 private:
  using Event = std::pair<double, int>;  // time, rank

  void Append(int rank, const Step& step, double now);
  void Announce(int consumer, double arrival);

  const Problem& problem_;
  std::vector<double> forward_end_, gradient_end_;   // [cell]
  std::vector<int> forwards_, gradients_, weights_;  // [stage]
  double cycle_ = 0;
  std::vector<double> free_at_, idle_;  // [rank]
  std::vector<RankMemory> memory_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Schedule schedule_;
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_STATE_H_
