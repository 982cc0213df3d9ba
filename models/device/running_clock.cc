#include "models/device/running_clock.h"

#include <algorithm>
#include <utility>

namespace sluice {

RunningClock::RunningClock(std::function<int64_t()> steady)
    : steady_(std::move(steady)), offset_(steady_()), last_look_(offset_.load()) {}

// The process may be stopped between any two of these lines. A `now` from before a stop goes only
// with the offset from before it, and one from after it only with the one from after it: LookAt
// writes the offset before the look, so whoever sees that the look is fresh also sees, when it
// compares, that the offset is another.
int64_t RunningClock::Read() {
  while (true) {
    const int64_t offset = offset_.load();
    const int64_t floor = floor_.load();
    const int64_t now = steady_();
    if (now - last_look_.load() > kUnseen) {
      LookAt(now);
    } else if (offset_.load() == offset) {
      return std::max(floor, now - offset);
    }
  }
}

void RunningClock::LookAt(int64_t now) {
  const std::lock_guard lock(mutex_);
  const int64_t last = last_look_.load();
  if (now <= last) return;  // somebody else has seen the time since, and counted its stop
  if (now - last > kShortestStop) {
    // The highest that anybody can have read before the stop, so that no reading goes back.
    const int64_t reading = std::max(floor_.load(), last - offset_.load()) + kUnseen;
    floor_.store(reading);  // first: until the offset is there too, it is no more than is true
    offset_.store(now + kGrace - reading);
  }
  last_look_.store(now);
}

}  // namespace sluice
