#ifndef SLUICE_SCHEDULES_OPTIMISE_SEARCH_SEARCH_H_
#define SLUICE_SCHEDULES_OPTIMISE_SEARCH_SEARCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/schedule.h"

namespace sluice::optimise {

// When to stop although there is more to try.
class Deadline {
 public:
  // After `seconds`, or as soon as `stop`, which may be empty, says so.
  explicit Deadline(std::optional<double> seconds, std::function<bool()> stop = {})
      : stop_(std::move(stop)) {
    if (seconds.has_value()) at_ = Clock::now() + std::chrono::duration<double>(*seconds);
  }
  // The moment after half of the time that is left.
  Deadline Half() const {
    Deadline half = *this;
    if (at_.has_value()) half.at_ = *at_ - (*at_ - Clock::now()) / 2;
    return half;
  }
  bool passed() const { return (at_.has_value() && Clock::now() >= *at_) || (stop_ && stop_()); }
  // Whether a time was given.
  bool bounded() const { return at_.has_value(); }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<std::chrono::time_point<Clock, std::chrono::duration<double>>> at_;
  std::function<bool()> stop_;
};

struct SearchSettings {
  double good_enough = 0;  // stop at a value as low as this
  double effort = 1;       // share of the usual amount of work
  uint64_t seed = 1;
};

// Dispatches by many preferences in parallel: first those that are often best, then random ones,
// then variations of the best so far. Returns the best order. Unless a deadline ends the search, the
// result does not depend on the number of threads. At least one set of preferences is always tried.
Schedule SearchRules(const Problem& problem, const SearchSettings& settings,
                     const Deadline& deadline);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_SEARCH_SEARCH_H_
