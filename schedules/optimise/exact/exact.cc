#include "schedules/optimise/exact/exact.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "schedules/optimise/exact/layered_search.h"
#include "schedules/optimise/problem/one_rank.h"
#include "schedules/optimise/problem/relaxation.h"

namespace sluice::optimise {
namespace {

// The first limit is above the lower bound by this share of what lies between the bounds.
constexpr double kFirstStep = 1.0 / 16;
constexpr int64_t kLeastPrefixes = 1'000;
// What each rank needs by itself may take this share of all other work besides.
constexpr double kShareOfRanks = 0.2;
// Nor are bounds looked for that are higher by less than this share of the objective.
constexpr double kLeastRaise = 1e-4;

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

Problem WithSumsInAnyOrder(Problem problem) {
  problem.sums_in_any_order = problem.fuses_somewhere();
  return problem;
}

// Whether no B runs where W of its stage wait.
bool IsTimetable(const Problem& problem, const Order& order) {
  std::vector<int> waiting(problem.stages, 0);
  for (const std::vector<Step>& row : order) {
    for (const Step& step : row) {
      if (step.op == Op::kBackward && waiting[step.stage] > 0) return false;
      if (step.op == Op::kInputGrad) ++waiting[step.stage];
      if (step.op == Op::kWeightGrad) --waiting[step.stage];
    }
  }
  return true;
}

class ExactSearch {
 public:
  ExactSearch(const Problem& problem, double lower, double upper, int64_t most_prefixes,
              const Deadline& deadline)
      : problem_(problem),
        any_sums_(WithSumsInAnyOrder(problem)),
        cheapest_(CheapestOf(problem)),
        relaxation_(cheapest_),
        grain_(GreatestCommonDivisor(problem)),
        upper_(upper),
        left_(most_prefixes),
        deadline_(deadline) {
    Raise(lower, &result_.lower);
  }

  ExactResult Run();
  ExactResult RunRanks();

 private:
  bool Meets(double lower) const { return lower >= upper_ * (1 - kRounding); }
  // Every objective is a multiple of the grain: a bound between two of them is as good as the upper.
  void Raise(double to, double* lower) const;
  // Half of what is left, so that lower limits can follow where this one leaves too many prefixes.
  int64_t Half() const { return left_ / 2; }
  // Raises the lower bound to what each rank needs by itself.
  void RaiseByRanks();
  // Between `lower`, which it raises to what is proved of the orders of `problem`, and the upper
  // bound.
  void CloseIn(const Problem& problem, double* lower);
  // Looks for an order below `limit`. Returns whether the search was exhaustive.
  bool TryBelow(const Problem& problem, double limit, int64_t most_prefixes, double* lower);

  const Problem& problem_;
  const Problem any_sums_;  // what bounds are proved of
  const Problem cheapest_;
  const Relaxation relaxation_;
  const double grain_;
  double upper_;
  int64_t left_;
  const Deadline& deadline_;
  bool found_no_timetable_ = false;  // but an order that stands for none
  ExactResult result_;
};

void ExactSearch::Raise(double to, double* lower) const {
  if (grain_ > 0) to = std::ceil(to / grain_ * (1 - kRounding)) * grain_;
  *lower = std::max(*lower, to);
}

void ExactSearch::RaiseByRanks() {
  if (problem_.stages == problem_.ranks) return;
  // A rank has a part of the actions only, and each of its prefixes takes so much less.
  auto left = static_cast<int64_t>(kShareOfRanks * static_cast<double>(left_ * problem_.ranks));
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    const Problem one = OneRankOf(relaxation_, rank);
    const Relaxation relaxation(one);
    int64_t own = left / (problem_.ranks - rank);
    const int64_t before = own;
    // Whether the rank needs at least so long by itself. An order that is shorter is found soon.
    const auto needs = [&](double limit) {
      LayeredResult found;
      for (const int64_t share : {16, 2}) {
        found = SearchLayers(one, relaxation, limit * (1 - kRounding), own / share, deadline_);
        own -= found.prefixes;
        if (found.exhausted || found.best.value < kNever) break;
      }
      return found.exhausted && found.best.value == kNever;
    };
    const double least = std::max(grain_, upper_ * kLeastRaise);
    double step = std::max(least, (upper_ - result_.lower) * kFirstStep);
    while (!Meets(result_.lower) && own > kLeastPrefixes && !deadline_.passed()) {
      const double limit = std::min(result_.lower + step, upper_);
      if (needs(limit)) {
        Raise(limit, &result_.lower);
        step *= 2;
      } else if (step > least) {
        step = std::max(least, step / 4);
      } else {
        break;
      }
    }
    left -= before - own;
    result_.prefixes += (before - own) / problem_.ranks;
  }
}

bool ExactSearch::TryBelow(const Problem& problem, double limit, int64_t most_prefixes,
                           double* lower) {
  LayeredResult found =
      SearchLayers(problem, relaxation_, limit * (1 - kRounding), most_prefixes, deadline_);
  result_.prefixes += found.prefixes;
  left_ -= found.prefixes;
  const double value = found.best.value;
  if (found.exhausted) Raise(value < upper_ ? value : limit, lower);
  if (value < upper_ && IsTimetable(problem_, found.best.order)) {
    upper_ = value;
    result_.better = std::move(found.best);
  } else if (value < upper_) {
    found_no_timetable_ = true;
  }
  return found.exhausted;
}

ExactResult ExactSearch::Run() {
  const int64_t more = left_ / 2;
  RaiseByRanks();
  CloseIn(any_sums_, &result_.lower);
  if (found_no_timetable_ && !Meets(result_.lower)) {
    // Now for the best of those that are timetables, without a proof for the others.
    left_ = std::max(left_, more);
    double lower = result_.lower;
    CloseIn(problem_, &lower);
  }
  return std::move(result_);
}

void ExactSearch::CloseIn(const Problem& problem, double* lower) {
  double step = std::max(grain_, (upper_ - *lower) * kFirstStep);
  const double smallest = std::max(grain_, upper_ * kRounding);
  bool tried_upper = false;
  while (!Meets(*lower) && left_ > kLeastPrefixes && !deadline_.passed()) {
    const double limit = std::min(*lower + step, upper_);
    if (TryBelow(problem, limit, Half(), lower)) {
      // The best order of all is known, and is no timetable.
      if (*lower < limit * (1 - kRounding) && !Meets(*lower)) break;
      step *= 2;
      continue;
    }
    // Too many prefixes: what is left is to find a better order, and to raise the bound a little.
    const bool last = step <= smallest;
    if (!tried_upper && !Meets(*lower) && limit < upper_)
      TryBelow(problem, upper_, last ? left_ : Half(), lower);
    tried_upper = true;
    if (last) break;
    step = std::max(smallest, step / 4);
  }
}

ExactResult ExactSearch::RunRanks() {
  RaiseByRanks();
  return std::move(result_);
}

}  // namespace

ExactResult SearchExactly(const Problem& problem, double lower, double upper, int64_t most_prefixes,
                          const Deadline& deadline) {
  return ExactSearch(problem, lower, upper, most_prefixes, deadline).Run();
}

ExactResult SearchRanks(const Problem& problem, double lower, double upper, int64_t most_prefixes,
                        const Deadline& deadline) {
  return ExactSearch(problem, lower, upper, most_prefixes, deadline).RunRanks();
}

}  // namespace sluice::optimise
