#include "models/device/running_clock.h"

#include <algorithm>
#include <utility>

namespace sluice {

RunningClock::RunningClock(std::function<int64_t()> steady)
    : steady_(std::move(steady)), offset_(steady_()), last_look_(offset_.load()) {}

// The process may be stopped between any two of these lines. A `now` from before a stop must be
// used only with the offset from before it, and one from after it only with the offset from after
// it: LookAt writes the offset before the look, so a thread that sees that the look is recent also
// sees, when it compares, that the offset has changed.
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
  if (now <= last) return;  // another thread has seen the time since, and counted the stop
  if (now - last > kShortestStop) {
    // The highest value that any thread can have read before the stop, so that no reading goes
    // back.
    const int64_t reading = std::max(floor_.load(), last - offset_.load()) + kUnseen;
    // Written before the offset: until then the floor is not above the true time.
    floor_.store(reading);
    offset_.store(now + kGrace - reading);
  }
  last_look_.store(now);
}

}  // namespace sluice
