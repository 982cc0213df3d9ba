#include "schedules/optimise/exact/exact.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "schedules/optimise/exact/layered_search.h"
#include "schedules/optimise/problem/relaxation.h"

namespace sluice::optimise {
namespace {

// The first limit is above the lower bound by this share of what lies between the bounds.
constexpr double kFirstStep = 1.0 / 16;
constexpr int64_t kLeastPrefixes = 1'000;

// The greatest number that all durations and latencies are multiples of, and with them all
// objectives; 0 where they are not whole numbers.
double GreatestCommonDivisor(const Problem& problem) {
  constexpr double kMostExact = 1e12;
  int64_t divisor = 0;
  for (const auto* values : {&problem.forward, &problem.input_grad, &problem.weight_grad,
                             &problem.backward, &problem.hop}) {
    for (double value : *values) {
      if (value != std::floor(value) || value > kMostExact) return 0;
      divisor = std::gcd(divisor, static_cast<int64_t>(value));
    }
  }
  return static_cast<double>(divisor);
}

class ExactSearch {
 public:
  ExactSearch(const Problem& problem, double lower, double upper, int64_t most_prefixes,
              const Deadline& deadline)
      : problem_(problem),
        cheapest_(CheapestOf(problem)),
        relaxation_(cheapest_),
        grain_(GreatestCommonDivisor(problem)),
        upper_(upper),
        left_(most_prefixes),
        deadline_(deadline) {
    Raise(lower);
  }

  ExactResult Run();

 private:
  bool Closed() const { return result_.lower >= upper_ * (1 - kRounding); }
  // Every objective is a multiple of the grain: a bound between two of them is as good as the upper.
  void Raise(double lower);
  // Half of what is left, so that lower limits can follow where this one leaves too many prefixes.
  int64_t MostPrefixes() const { return left_ / 2; }
  // Looks for an order below `limit`. Returns whether the search was exhaustive.
  bool TryBelow(double limit);

  const Problem& problem_;
  const Problem cheapest_;
  const Relaxation relaxation_;
  const double grain_;
  double upper_;
  int64_t left_;
  const Deadline& deadline_;
  ExactResult result_;
};

void ExactSearch::Raise(double lower) {
  if (grain_ > 0) lower = std::ceil(lower / grain_ * (1 - kRounding)) * grain_;
  result_.lower = std::max(result_.lower, lower);
}

bool ExactSearch::TryBelow(double limit) {
  LayeredResult found =
      SearchLayers(problem_, relaxation_, limit * (1 - kRounding), MostPrefixes(), deadline_);
  result_.prefixes += found.prefixes;
  left_ -= found.prefixes;
  const bool better = found.best.value < upper_;
  if (better) {
    upper_ = found.best.value;
    result_.better = std::move(found.best);
  }
  if (found.exhausted) Raise(better ? upper_ : limit);
  return found.exhausted;
}

ExactResult ExactSearch::Run() {
  double step = std::max(grain_, (upper_ - result_.lower) * kFirstStep);
  const double smallest = std::max(grain_, upper_ * kRounding);
  bool tried_upper = false;
  while (!Closed() && left_ > kLeastPrefixes && !deadline_.passed()) {
    const double limit = std::min(result_.lower + step, upper_);
    if (TryBelow(limit)) {
      step *= 2;
      continue;
    }
    // Too many prefixes: what is left is to find a better order, and to raise the bound a little.
    if (!tried_upper && !Closed() && limit < upper_) TryBelow(upper_);
    tried_upper = true;
    if (step <= smallest) break;
    step = std::max(smallest, step / 4);
  }
  return std::move(result_);
}

}  // namespace

ExactResult SearchExactly(const Problem& problem, double lower, double upper, int64_t most_prefixes,
                          const Deadline& deadline) {
  return ExactSearch(problem, lower, upper, most_prefixes, deadline).Run();
}

}  // namespace sluice::optimise
