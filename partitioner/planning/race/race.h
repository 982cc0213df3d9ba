#ifndef SLUICE_PARTITIONER_PLANNING_RACE_RACE_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_RACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "partitioner/search/search_options.h"

namespace sluice {

// What came of one contestant's search.
enum class RaceOutcome : uint8_t {
  kNotTried,  // the race was over before its turn, or its lower bound spared it the search
  kFound,     // something of `seconds`
  kSlower,    // proved: it has nothing that fits and takes less than `cutoff`, up to the gap
  kStopped,   // time or budget ended before it found anything
  kRefused,   // it cannot be had, as `why` says
};

struct RaceResult {
  RaceOutcome outcome = RaceOutcome::kNotTried;
  double seconds = std::numeric_limits<double>::infinity();
  double lower_bound = 0;  // no less than this is possible; of what was found alone
  double cutoff = std::numeric_limits<double>::infinity();
  bool complete = false;  // the search came to its end
  int64_t steps = 0;      // elementary ones that it took
  absl::Status why;       // of kStopped and kRefused

  bool found() const { return outcome == RaceOutcome::kFound; }
};

// One thing that may be the best: a timetable, or a way to use the devices.
class Contestant {
 public:
  virtual ~Contestant() = default;
  // Looks for what takes less than options.cutoff, or about as much; in a thread of its own, once.
  virtual RaceResult Search(const SearchOptions& options) = 0;

  RaceResult result;
  // Seconds that it is known not to beat.
  double floor = -std::numeric_limits<double>::infinity();
};

// How contestants are tried.
struct RaceRules {
  double cutoff = std::numeric_limits<double>::infinity();  // seconds that are known already
  double gap = 0;            // good enough: at most this much longer, relatively
  int64_t budget = 0;        // elementary steps that all share; what one leaves, the next may use
  int64_t least_budget = 0;  // steps that each gets, whatever the others took
  size_t wave = 1;           // how many run side by side, with what those before them found
  std::function<bool()> stop = {};        // true ends the search with what it has; may be empty
  bool leave_when_stopped = false;        // whether no further wave starts then
  std::function<void()> after_wave = {};  // may be empty
  // Called when a contestant has found something, from the thread it was searched in; may be empty.
  std::function<void()> on_found = {};
};

// Tries one contestant after the other, each against the best one so far: most are proved slower at
// once. Waves have a fixed size, so that the outcome does not depend on the number of threads.
class Race {
 public:
  explicit Race(RaceRules rules);

  // Something of so many seconds is known, whoever has it.
  void Lower(double seconds);
  // Takes the result of a contestant that has one.
  void Take(Contestant* contestant);
  // Tries `order`, the most promising first. Does not try those whose floor is no better than the
  // incumbent.
  void Run(const std::vector<Contestant*>& order);

  double incumbent() const { return incumbent_; }  // seconds of the best known
  // The first that was faster than all before it; null where nothing beat the first cutoff.
  Contestant* best() const { return best_; }
  int tried() const { return tried_; }
  int64_t steps() const { return rules_.budget - left_; }

 private:
  void RunWave(const std::vector<Contestant*>& wave, int64_t budget);

  RaceRules rules_;
  double incumbent_;
  double best_seconds_;
  Contestant* best_ = nullptr;
  int tried_ = 0;
  int64_t left_;  // elementary steps
};

// Why something of `seconds` lost against the best one; `proved`: no search would have helped.
std::string WhyLonger(double seconds, double best_seconds, bool proved);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_RACE_H_
