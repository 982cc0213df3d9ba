#ifndef SLUICE_SCHEDULES_OPTIMISE_SEARCH_REPLAY_H_
#define SLUICE_SCHEDULES_OPTIMISE_SEARCH_REPLAY_H_

#include <vector>

#include "schedules/optimise/problem/problem.h"

namespace sluice::optimise {

// Finds the times of an order, with every action as early as the sequence of its rank lets it, as
// Simulate does; fast enough to be called very often.
class Replay {
 public:
  explicit Replay(const Problem& problem);

  struct Where {
    int rank;
    int position;
  };
  // A run of actions on one rank without a gap, all on one critical path: positions first..last.
  struct Block {
    int rank;
    int first;
    int last;
  };

  // Returns false when the order never completes. O(actions).
  bool Run(const Order& order);
  // The maximum and the mean over ranks of end - grace, for the last order that completed.
  double value() const { return value_; }
  double mean() const { return mean_; }
  // The critical path of that order, as blocks of at least two actions, from the end to the start.
  const std::vector<Block>& FindBlocks(const Order& order);

 private:
  void Advance(const Order& order, int rank);
  double Arrival(const Step& step, int k) const;
  void Wake(int stage);

  const Problem& problem_;
  std::vector<double> forward_end_, gradient_end_;  // [cell]
  std::vector<Where> forward_at_, gradient_at_;     // [cell]
  std::vector<int> forwards_, gradients_;           // [stage]
  std::vector<std::vector<double>> end_;            // [rank][position]
  std::vector<std::vector<int>> count_;             // [rank][position] the action's micro-batch
  std::vector<int> done_;                           // [rank] how many actions have their times
  std::vector<char> queued_;
  std::vector<int> queue_;
  std::vector<Block> blocks_;
  double value_ = 0;
  double mean_ = 0;
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_SEARCH_REPLAY_H_
