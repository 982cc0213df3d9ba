#include "schedules/simulate/bound.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

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

// A pair lasts X, so each of its two actions can be charged a share of X. Where forwards are charged
// one share and backwards the rest, the charges of the two halves add up to at most X, and the sum
// of all charges is a lower bound on the busy time of a rank.
Least LeastOf(const StageCosts& costs, int stage, double forward_share, double backward_share) {
  const double f = std::min(costs.forward[stage], forward_share);
  const double i = std::min(costs.input_grad[stage], backward_share);
  const double w = std::min(costs.weight_grad[stage], backward_share);
  const double b = std::min(costs.backward[stage], backward_share);
  return {f, std::min(i, b), std::min(b, i + w)};
}

// The proof. Follow one micro-batch down and up again: F on stages 0..S-1, then the gradient on
// stages S-1..0; each edge between two ranks costs its latency. No F of stage s starts before
// forward_start[s], no B or I before gradient_start[s], and after the gradient of stage s (after F
// of stage s) at least the rest of the chain remains. Take a rank, the least of each of these
// numbers over its stages, and the micro-batches that run through each:
//  - nothing runs on it before forward_start, then it does all its work;
//  - its last B or I, whichever stage it is of, comes after all its F and all its other I, and
//    leaves a rest of at least after_gradient (the W may run meanwhile, so they are not counted);
//  - its first B or I does not start before gradient_start; all its backward work comes after;
//  - its last F comes after all its other F, and leaves a rest of at least after_forward.
// A RECOMPUTE is never part of a pair and comes before its own B or I, so before the rank's last:
// it counts in full in the first two lines. In the others it may fall into the time left out. Each
// line gives a lower bound on the makespan; the largest over all ranks is returned. With several
// copies of the model there is a chain for each.
class Bound {
 public:
  Bound(const Placement& placement, std::vector<int> micro_batches, const StageCosts& costs,
        const std::vector<int>& recomputes)
      : placement_(placement),
        costs_(costs),
        micro_batches_(std::move(micro_batches)),
        recomputes_(recomputes),
        pair_(costs.overlap >= 0 ? costs.overlap : kUnlimited),
        forward_start_(placement.stages(), 0),
        gradient_start_(placement.stages(), 0) {
    const int stages = placement.stages();
    std::vector<Least> least;
    least.reserve(stages);
    for (int s = 0; s < stages; ++s) least.push_back(LeastOf(costs, s, pair_, pair_));
    for (int first = 0; first < stages; first += placement.model_stages()) Chain(first, least);
  }

  double OfRank(int rank) const {
    std::vector<int> stages = placement_.StagesOf(rank);
    stages.erase(std::remove_if(stages.begin(), stages.end(),
                                [this](int s) { return micro_batches_[s] == 0; }),
                 stages.end());
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

  // Of what is never part of a pair, which has an F and a backward: no backward begins before some
  // micro-batch has come through all its F, and all F have ended once the last micro-batch to turn
  // round begins its gradient. So the F of the one and the gradient of the other, down to the
  // backward of any one stage, take their own time, one after the other.
  double OfChains() const {
    double down = kUnlimited, up = kUnlimited;
    for (int first = 0; first < placement_.stages(); first += placement_.model_stages()) {
      if (micro_batches_[first] == 0) continue;
      const int last = first + placement_.model_stages() - 1;
      double forward = 0, gradient = 0, longest = 0;
      for (int s = last; s >= first; --s) {
        const Least least = LeastOf(costs_, s, kUnlimited, kUnlimited);
        const double hop = s == last ? 0 : Hop(s);
        forward += least.forward + hop;
        gradient += hop;
        longest = std::max(longest, gradient + least.backward);
        gradient += least.input_grad;
      }
      down = std::min(down, forward);
      up = std::min(up, longest);
    }
    return down == kUnlimited ? 0 : down + up;
  }

 private:
  // Messages between stages `s` and `s` + 1.
  double Hop(int s) const {
    return placement_.rank(s) == placement_.rank(s + 1) ? 0 : costs_.send[s];
  }

  // Follows a micro-batch through the copy of the model that begins at stage `first`.
  void Chain(int first, const std::vector<Least>& least) {
    const int last = first + placement_.model_stages() - 1;
    for (int s = first + 1; s <= last; ++s) {
      forward_start_[s] = forward_start_[s - 1] + least[s - 1].forward + Hop(s - 1);
    }
    gradient_start_[last] = forward_start_[last] + least[last].forward;
    for (int s = last - 1; s >= first; --s) {
      gradient_start_[s] = gradient_start_[s + 1] + least[s + 1].input_grad + Hop(s);
    }
    const double end = gradient_start_[first] + least[first].backward;
    for (int s = first; s <= last; ++s) {
      after_forward_.push_back(end - forward_start_[s] - least[s].forward);
      after_gradient_.push_back(end - gradient_start_[s] - least[s].input_grad);
    }
    // The weight gradient of the first stage can share a pair with work that is counted already.
    if (costs_.overlap >= 0) after_gradient_[first] = 0;
  }

  static double LeastAmong(const std::vector<int>& stages, const std::vector<double>& values) {
    double least = kUnlimited;
    for (int s : stages) least = std::min(least, values[s]);
    return stages.empty() ? 0 : least;
  }

  double OfShares(const std::vector<int>& stages, double forward_share,
                  double backward_share) const {
    Least work;
    double rebuilding = 0;
    for (int s : stages) {
      if (!recomputes_.empty())
        rebuilding +=
            recomputes_[s] * costs_.Of({.op = Op::kRecompute, .stage = static_cast<uint16_t>(s)});
      const Least least = LeastOf(costs_, s, forward_share, backward_share);
      work.forward += micro_batches_[s] * least.forward;
      work.input_grad += micro_batches_[s] * least.input_grad;
      work.backward += micro_batches_[s] * least.backward;
    }
    const double to_the_end =
        std::max(work.backward, work.input_grad + LeastAmong(stages, after_gradient_));
    const double start = LeastAmong(stages, forward_start_);
    return std::max({start + work.forward + rebuilding + to_the_end,
                     LeastAmong(stages, gradient_start_) + to_the_end,
                     start + work.forward + LeastAmong(stages, after_forward_)});
  }

  const Placement& placement_;
  const StageCosts& costs_;
  const std::vector<int> micro_batches_;  // [stage]
  const std::vector<int>& recomputes_;    // [stage], or empty
  const double pair_;                     // the duration of a pair
  std::vector<double> forward_start_;
  std::vector<double> gradient_start_;
  std::vector<double> after_forward_;
  std::vector<double> after_gradient_;
};

}  // namespace

double GapOf(double value, double bound) {
  if (bound > 0) return value / bound - 1;
  return value > 0 ? kUnlimited : 0;
}

double MakespanLowerBound(const Placement& placement, int micro_batches, const StageCosts& costs,
                          const std::vector<int>& recomputes) {
  Timetable table;
  table.placement = placement;
  table.micro_batches = micro_batches;
  std::vector<int> counts;
  for (int s = 0; s < placement.stages(); ++s) counts.push_back(table.MicroBatchesOf(s));
  return MakespanLowerBound(placement, std::move(counts), costs, recomputes);
}

double MakespanLowerBound(const Placement& placement, std::vector<int> micro_batches,
                          const StageCosts& costs, const std::vector<int>& recomputes) {
  const Bound bound(placement, std::move(micro_batches), costs, recomputes);
  double best = bound.OfChains();
  for (int rank = 0; rank < placement.ranks(); ++rank) best = std::max(best, bound.OfRank(rank));
  return best;
}

}  // namespace sluice
