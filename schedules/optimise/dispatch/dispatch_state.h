#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_STATE_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_STATE_H_

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/schedule.h"

namespace sluice::optimise {

// All ranks along one clock: what has run, what has arrived, what is held. Both sets of rules that
// choose what a rank runs next use it.
class DispatchState {
 public:
  // `prompt_weights` as for Dispatch.
  DispatchState(const Problem& problem, const std::vector<char>& prompt_weights);

  // Calls decide(rank, now) whenever a rank is free and something that it may wait for has happened,
  // until nothing more will happen. `decide` calls Start or WaitUntil, or neither where it waits for
  // arrivals that are not known yet.
  Schedule Run(const std::function<void(int, double)>& decide);

  // Runs the stage's next F, I, W or B on the free rank; a W that must follow its I at once runs
  // with it.
  void Start(int rank, Op op, int stage, double now);
  void WaitUntil(int rank, double time) { events_.emplace(time, rank); }

  // How many have started so far, which is the micro-batch of the next one.
  int forwards(int stage) const { return forwards_[stage]; }
  int gradients(int stage) const { return gradients_[stage]; }
  int weights(int stage) const { return weights_[stage]; }
  // When the input of the stage's next F (or I) arrives; kNever where none is left, or where the
  // action that makes the input has not begun.
  double ForwardArrival(int stage) const;
  double GradientArrival(int stage) const;

  // Whether F of `stage` has room now, besides the reserve for an I.
  bool Admits(int rank, int stage) const { return memory_[rank].Admits(stage); }
  // Whether I of `stage` has room now. Where not, W that wait may make room, and B needs none.
  bool GradientFits(int rank, int stage) const {
    return memory_[rank].Fits({Op::kInputGrad, static_cast<uint16_t>(stage)});
  }
  // A rank with several stages must not fill up with micro-batches that then lack memory for their
  // later stages. An F is safe where, after it, each micro-batch in flight on the rank could still
  // get through once all micro-batches before it are done.
  bool Safe(int rank, int stage) const;

  double cycle() const { return cycle_; }              // the busiest rank's work on one micro-batch
  double idle(int rank) const { return idle_[rank]; }  // after its first action

 private:
  using Event = std::pair<double, int>;  // time, rank

  void Append(int rank, const Step& step, double now);
  void Announce(int consumer, double arrival);

  const Problem& problem_;
  const std::vector<char>& prompt_weights_;          // [stage], or empty
  std::vector<double> forward_end_, gradient_end_;   // [cell]
  std::vector<int> forwards_, gradients_, weights_;  // [stage]
  double cycle_ = 0;
  std::vector<double> free_at_, idle_;  // [rank]
  std::vector<RankMemory> memory_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Schedule schedule_;
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_STATE_H_
