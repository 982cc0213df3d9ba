#include <algorithm>
#include <limits>
#include <vector>

#include "schedules/simulate.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The least that one (stage, micro-batch) can cost, whatever the timetable does with it: run B
// whole or split it into I and W, and put any of them in a pair.
struct Least {
  double forward = 0;
  double input_grad = 0;  // until the gradient of the input can leave: I or B
  double backward = 0;    // input and weight gradient: B, or I + W
};

// A pair lasts X, so an action in it cannot be charged more than a share of X. With one share for
// forwards and the other for backwards, the charges of a pair's halves add up to at most X: sums of
// charges bound a rank's busy time.
Least LeastOf(const StageCosts& costs, int stage, double forward_share, double backward_share) {
  const double f = std::min(costs.forward[stage], forward_share);
  const double i = std::min(costs.input_grad[stage], backward_share);
  const double w = std::min(costs.weight_grad[stage], backward_share);
  const double b = std::min(costs.backward[stage], backward_share);
  return {f, std::min(i, b), std::min(b, i + w)};
}

// The proof. Follow one micro-batch down and up again: F on stages 0..S-1, then the gradient on
// stages S-1..0, each hop between ranks costing its latency. No F of stage s starts before
// forward_start[s], no B or I before gradient_start[s], and after the gradient of stage s (after F
// of stage s) at least the rest of the chain remains. Take a rank whose lowest stage is l and
// highest h, and m micro-batches:
//  - nothing runs on it before forward_start[l], then it does all its work;
//  - its last B or I, whichever stage it is of, comes after all its F and all its other I, and
//  leaves a rest of at least
//    that of stage l (the W may run meanwhile, so they are not counted);
//  - its first B or I does not start before gradient_start[h]; all its backward work comes after;
//  - its last F comes after all its other F, and leaves a rest of at least that of stage h.
// Each line gives a lower bound on the makespan; the largest over all ranks is returned.
class Bound {
 public:
  Bound(const Placement& placement, int micro_batches, const StageCosts& costs)
      : placement_(placement),
        costs_(costs),
        micro_batches_(micro_batches),
        pair_(costs.overlap >= 0 ? costs.overlap : kUnlimited),
        forward_start_(placement.stages(), 0),
        gradient_start_(placement.stages(), 0) {
    const int stages = placement.stages();
    std::vector<Least> least;
    least.reserve(stages);
    for (int s = 0; s < stages; ++s) least.push_back(LeastOf(costs, s, pair_, pair_));
    const auto hop = [&](int s) {
      return placement.rank(s) == placement.rank(s + 1) ? 0 : costs.send[s];
    };
    for (int s = 1; s < stages; ++s) {
      forward_start_[s] = forward_start_[s - 1] + least[s - 1].forward + hop(s - 1);
    }
    gradient_start_[stages - 1] = forward_start_[stages - 1] + least[stages - 1].forward;
    for (int s = stages - 2; s >= 0; --s) {
      gradient_start_[s] = gradient_start_[s + 1] + least[s + 1].input_grad + hop(s);
    }
    const double end = gradient_start_[0] + least[0].backward;
    for (int s = 0; s < stages; ++s) {
      after_forward_.push_back(end - forward_start_[s] - least[s].forward);
      after_gradient_.push_back(end - gradient_start_[s] - least[s].input_grad);
    }
    // The weight gradient of stage 0 can share a pair with work that is counted already.
    if (costs.overlap >= 0) after_gradient_[0] = 0;
  }

  double OfRank(int rank) const {
    const std::vector<int> stages = placement_.StagesOf(rank);
    if (pair_ == kUnlimited) return OfShares(stages, kUnlimited, kUnlimited);
    double best = 0;
    for (int s : stages) {
      // Every share is sound; F / (F + B) is the tightest when a rank's stages are alike.
      const double both = costs_.forward[s] + costs_.backward[s];
      const double share = both > 0 ? costs_.forward[s] / both : 0.5;
      best = std::max(best, OfShares(stages, share * pair_, (1 - share) * pair_));
    }
    return best;
  }

 private:
  double OfShares(const std::vector<int>& stages, double forward_share,
                  double backward_share) const {
    Least work;
    for (int s : stages) {
      const Least least = LeastOf(costs_, s, forward_share, backward_share);
      work.forward += micro_batches_ * least.forward;
      work.input_grad += micro_batches_ * least.input_grad;
      work.backward += micro_batches_ * least.backward;
    }
    const int lowest = stages.front();
    const int highest = stages.back();
    const double to_the_end = std::max(work.backward, work.input_grad + after_gradient_[lowest]);
    return std::max({forward_start_[lowest] + work.forward + to_the_end,
                     gradient_start_[highest] + to_the_end,
                     forward_start_[lowest] + work.forward + after_forward_[highest]});
  }

  const Placement& placement_;
  const StageCosts& costs_;
  const int micro_batches_;
  const double pair_;  // the duration of a pair
  std::vector<double> forward_start_;
  std::vector<double> gradient_start_;
  std::vector<double> after_forward_;
  std::vector<double> after_gradient_;
};

}  // namespace

double MakespanLowerBound(const Placement& placement, int micro_batches, const StageCosts& costs) {
  const Bound bound(placement, micro_batches, costs);
  double best = 0;
  for (int rank = 0; rank < placement.ranks(); ++rank) best = std::max(best, bound.OfRank(rank));
  return best;
}

}  // namespace sluice
