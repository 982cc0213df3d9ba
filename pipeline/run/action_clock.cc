#include "pipeline/run/action_clock.h"

#include <algorithm>
#include <chrono>

namespace sluice {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A mark in `end` until the event's time is known.
constexpr int64_t kQueued = -1;

}  // namespace

ActionClock::ActionClock(Device* device, Stream stream, size_t actions)
    : device_(*device), stream_(stream), times_(actions) {
  if (!device_.queues()) return;
  const auto make = [this](Event* event) {
    absl::StatusOr<Event> made = device_.NewEvent();
    if (!made.ok()) status_ = made.status();
    if (made.ok()) *event = *made;
  };
  make(&origin_);
  events_.resize(2 * actions);
  for (Event& event : events_) {
    if (status_.ok()) make(&event);
  }
}

void ActionClock::Start() {
  std::fill(times_.begin(), times_.end(), ActionTime{});
  if (!device_.queues()) return;
  device_.Record(origin_, stream_);
  origin_time_ = Now();
}

void ActionClock::Begin(int action) {
  if (device_.queues()) {
    device_.Record(Boundary(action, false), stream_);
  } else {
    times_[static_cast<size_t>(action)] = {.start = Now()};
  }
}

void ActionClock::End(int action) {
  if (device_.queues()) device_.Record(Boundary(action, true), stream_);
  times_[static_cast<size_t>(action)].end = device_.queues() ? kQueued : Now();
}

ActionClock::Waiting::Waiting(ActionClock* clock, int action)
    : clock_(*clock), action_(action), start_(Now()) {}

// A stream that waits is not seen: the host runs ahead of it.
ActionClock::Waiting::~Waiting() {
  if (action_ >= 0 && !clock_.device_.queues())
    clock_.times_[static_cast<size_t>(action_)].waited += Now() - start_;
}

void ActionClock::Finish() {
  if (!device_.queues()) return;
  const auto when = [this](Event event) {
    return origin_time_ + absl::ToInt64Nanoseconds(device_.Elapsed(origin_, event));
  };
  for (size_t action = 0; action < times_.size(); ++action) {
    if (times_[action].end != kQueued) continue;
    times_[action].start = when(Boundary(static_cast<int>(action), false));
    times_[action].end = when(Boundary(static_cast<int>(action), true));
  }
}

}  // namespace sluice
