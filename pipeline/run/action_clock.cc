#include "pipeline/run/action_clock.h"

#include <algorithm>

namespace sluice {

ActionClock::ActionClock(Device* device, Stream stream, size_t actions)
    : queues_(device->queues()), marks_(device, stream, 2 * actions), times_(actions) {}

void ActionClock::Start() {
  std::fill(times_.begin(), times_.end(), ActionTime{});
  marks_.Start();
}

ActionClock::Waiting::Waiting(ActionClock* clock, int action)
    : clock_(*clock), action_(action), start_(SteadyNanoseconds()) {}

// A stream that waits is not seen: the host runs ahead of it.
ActionClock::Waiting::~Waiting() {
  if (action_ >= 0 && !clock_.queues_)
    clock_.times_[static_cast<size_t>(action_)].waited += SteadyNanoseconds() - start_;
}

void ActionClock::Finish() {
  marks_.Finish();
  for (size_t action = 0; action < times_.size(); ++action) {
    // One that has not come to its end has not run.
    if (marks_[2 * action + 1] == 0) continue;
    times_[action].start = marks_[2 * action];
    times_[action].end = marks_[2 * action + 1];
  }
}

}  // namespace sluice
