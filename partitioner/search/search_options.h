#ifndef SLUICE_PARTITIONER_SEARCH_SEARCH_OPTIONS_H_
#define SLUICE_PARTITIONER_SEARCH_SEARCH_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>

namespace sluice {

// When a search may stop, and what is of interest to it.
struct SearchOptions {
  // Steps of this many seconds or more are of no interest (another schedule already does better):
  // once it is proved that none is shorter, the search stops, with lower_bound = cutoff and
  // whatever it found that fits.
  double cutoff = std::numeric_limits<double>::infinity();
  // Good enough: an answer that is proved to take at most this much longer, relatively, than the
  // best one ends the search.
  double gap = 0;
  // Elementary steps (an action simulated, a bound computed) before the search stops with what it
  // has. Counted rather than timed, so that the answer does not depend on the machine; some 10^8
  // take a second.
  int64_t budget = 400'000'000;
  // Asked now and then; true ends the search as the budget does. May be empty.
  std::function<bool()> stop;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_SEARCH_OPTIONS_H_
