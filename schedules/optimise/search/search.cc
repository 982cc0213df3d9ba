#include "schedules/optimise/search/search.h"

#include <algorithm>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/optimise/dispatch/dispatch.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice::optimise {
namespace {

// Preferences are tried this many at a time, whatever the number of threads; fewer where each takes
// long.
constexpr size_t kBatch = 8;
constexpr size_t kSmallBatch = 2;
constexpr size_t kManyActions = 20'000;
// At most this many actions are dispatched in all, which takes a fraction of a second. Small
// problems stop earlier.
constexpr size_t kMostActions = 3'000'000;
constexpr size_t kMostRules = 1'000;
constexpr size_t kLeastRules = 2 * kBatch;
// Cycles by which a W may be late where it is to wait until the end.
constexpr double kLate = 30;

// The preferences that win most often, over published and random tables of costs.
std::vector<DispatchRules> Favourites() {
  std::vector<DispatchRules> rules;
  for (double in_flight : {2.0, 2.5, 1.5, 3.0}) {
    for (bool forward_first : {false, true}) {
      rules.emplace_back(Preferences{.in_flight = in_flight, .forward_first = forward_first});
    }
  }
  return rules;
}

template <typename Value, size_t kCount>
Value Pick(const Value (&values)[kCount], std::mt19937_64& random) {
  return values[std::uniform_int_distribution<size_t>(0, kCount - 1)(random)];
}

// Random preferences, of values that do well for some problems. Where a rank has several stages, a
// steady pace of micro-batches keeps one stage from taking all the memory of the others.
Preferences DrawRules(bool several_chunks, std::mt19937_64& random) {
  constexpr double kInFlight[] = {0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 4.0, kNever};
  constexpr double kPatience[] = {0.0, 0.0, 0.3, 0.6, 1.0};
  constexpr double kForwardPatience[] = {0.0, 0.0, 0.5, 1.0};
  constexpr double kPace[] = {1.0, 1.0, 1.03, 1.06, 1.1, 1.2, 1.3};
  constexpr double kLateShare[] = {0.5, 1.0, 1.0, 1.0, 2.0};
  std::uniform_real_distribution<double> unit(0, 1);
  Preferences rules;
  rules.in_flight = Pick(kInFlight, random);
  rules.patience = Pick(kPatience, random);
  rules.forward_patience = Pick(kForwardPatience, random);
  rules.forward_first = unit(random) < 0.5;
  rules.late_share = Pick(kLateShare, random);
  if (unit(random) < (several_chunks ? 0.6 : 0.3)) {
    rules.pace = Pick(kPace, random);
    rules.burst = std::uniform_int_distribution<int>(0, 4)(random);
  }
  if (several_chunks) rules.deep_first = unit(random) < 0.8;
  return rules;
}

// Random due times.
DueTimes DrawDueTimes(std::mt19937_64& random) {
  constexpr double kSlowness[] = {1.0, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0, 3.5, 4.0};
  constexpr int kSpare[] = {0, 0, 0, 1, 2, 4, 8};
  constexpr double kLateWeights[] = {0.0, 1.0, 3.0, kLate, kLate, kLate};
  constexpr double kPatience[] = {0.0, 0.1, 0.3, 0.3, 0.6, 1.0};
  return {.slowness = Pick(kSlowness, random),
          .spare = Pick(kSpare, random),
          .late_weights = Pick(kLateWeights, random),
          .patience = Pick(kPatience, random)};
}

// Which micro-batches run B, where it is shorter than I and W.
void DrawFusing(std::mt19937_64& random, Preferences* rules) {
  constexpr double kSplitFirst[] = {0.0, 0.0, 0.0, 0.5, 1.0};
  constexpr double kSplitLast[] = {0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0};
  rules->split_first = Pick(kSplitFirst, random);
  rules->split_last = Pick(kSplitLast, random);
}

class RuleSearch {
 public:
  RuleSearch(const Problem& problem, const SearchSettings& settings, const Deadline& deadline)
      : problem_(problem), settings_(settings), deadline_(deadline), random_(settings.seed) {
    const size_t actions =
        3 * static_cast<size_t>(problem.stages) * static_cast<size_t>(problem.micro_batches);
    const double most =
        settings.effort * static_cast<double>(kMostActions) / static_cast<double>(actions);
    budget_ = std::clamp(static_cast<size_t>(most), kLeastRules, kMostRules);
    if (actions > kManyActions) batch_ = kSmallBatch;
    for (double w : problem.weight_grad) longest_weight_ = std::max(longest_weight_, w);
  }

  Schedule Run() {
    TryAll(Favourites());
    while (!Done() && tried_ < budget_ / 2) {
      TryBatch([this] { return Draw(); });
    }
    // Due times suit ranks that are short of memory.
    if (!problem_.memory.empty()) {
      const size_t until = tried_ + budget_ / 4;
      budget_ += budget_ / 4;
      while (!Done() && tried_ < until) {
        TryBatch([this] { return DrawDueTimes(random_); });
      }
    }
    while (!Done()) {
      TryBatch([this] { return Vary(best_rules_); });
    }
    return std::move(best_);
  }

 private:
  bool Done() const {
    return best_.value <= settings_.good_enough || tried_ >= budget_ ||
           (tried_ > 0 && deadline_.passed());
  }

  DispatchRules Draw() {
    Preferences drawn = DrawRules(problem_.stages > problem_.ranks, random_);
    if (problem_.fuses_somewhere()) DrawFusing(random_, &drawn);
    return drawn;
  }

  template <typename MakeRules>
  void TryBatch(const MakeRules& make) {
    std::vector<DispatchRules> rules;
    for (size_t i = 0; i < kBatch; ++i) rules.push_back(make());
    TryAll(rules);
  }

  void TryAll(const std::vector<DispatchRules>& rules) {
    for (size_t from = 0; from < rules.size() && !Done(); from += batch_) {
      const size_t count = std::min(batch_, rules.size() - from);
      std::vector<Schedule> results(count);
      ParallelFor(count, [&](size_t i) {
        // The very first preferences always run, so that there is a result.
        const bool needed = from + i == 0 && tried_ == 0;
        if (needed || !deadline_.passed()) results[i] = Dispatch(problem_, rules[from + i]);
      });
      for (size_t i = 0; i < count; ++i) {
        if (results[i].value >= best_.value) continue;
        best_ = std::move(results[i]);
        best_rules_ = rules[from + i];
      }
      tried_ += count;
    }
  }

  DispatchRules Vary(const DispatchRules& rules) {
    return std::visit([this](const auto& each) { return DispatchRules(Varied(each)); }, rules);
  }

  DueTimes Varied(DueTimes rules) {
    std::uniform_real_distribution<double> unit(0, 1);
    rules.slowness *= 0.85 + 0.3 * unit(random_);
    if (unit(random_) < 0.5) rules.patience = unit(random_);
    if (unit(random_) < 0.3) rules.spare = std::uniform_int_distribution<int>(0, 4)(random_);
    if (unit(random_) < 0.2) rules.late_weights = unit(random_) < 0.5 ? kLate : 3 * unit(random_);
    return rules;
  }

  Preferences Varied(Preferences rules) {
    std::uniform_real_distribution<double> unit(0, 1);
    if (rules.in_flight == kNever) rules.in_flight = 4;
    rules.in_flight *= 0.8 + 0.4 * unit(random_);
    if (unit(random_) < 0.5) rules.patience = unit(random_);
    if (unit(random_) < 0.5) rules.forward_patience = unit(random_);
    if (unit(random_) < 0.5) rules.idle_budget = 8 * longest_weight_ * unit(random_);
    if (unit(random_) < 0.3) rules.pace *= 0.95 + 0.1 * unit(random_);
    if (unit(random_) < 0.2) rules.burst = static_cast<int>(5 * unit(random_));
    if (unit(random_) < 0.2) rules.late_share *= 0.7 + 0.6 * unit(random_);
    if (unit(random_) < 0.2) rules.forward_first = !rules.forward_first;
    if (problem_.fuses_somewhere() && unit(random_) < 0.3) DrawFusing(random_, &rules);
    return rules;
  }

  const Problem& problem_;
  const SearchSettings& settings_;
  const Deadline& deadline_;
  std::mt19937_64 random_;
  size_t batch_ = kBatch;
  size_t budget_ = 0;
  size_t tried_ = 0;
  double longest_weight_ = 0;
  Schedule best_;
  DispatchRules best_rules_;
};

}  // namespace

Schedule SearchRules(const Problem& problem, const SearchSettings& settings,
                     const Deadline& deadline) {
  return RuleSearch(problem, settings, deadline).Run();
}

}  // namespace sluice::optimise
