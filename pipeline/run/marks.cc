#include "pipeline/run/marks.h"

#include <algorithm>
#include <chrono>

namespace sluice {
namespace {

// Of a mark whose event's time is not known yet.
constexpr int64_t kQueued = -1;

}  // namespace

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Marks::Marks(Device* device, Stream stream, size_t count)
    : device_(*device), stream_(stream), times_(count) {
  if (!device_.queues()) return;
  const auto make = [this](Event* event) {
    absl::StatusOr<Event> made = device_.NewEvent();
    if (!made.ok()) status_ = made.status();
    if (made.ok()) *event = *made;
  };
  make(&origin_);
  events_.resize(count);
  for (Event& event : events_) {
    if (status_.ok()) make(&event);
  }
}

void Marks::Start() {
  std::fill(times_.begin(), times_.end(), 0);
  if (!device_.queues()) return;
  device_.Record(origin_, stream_);
  origin_time_ = SteadyNanoseconds();
}

void Marks::Set(size_t mark) {
  if (device_.queues()) {
    device_.Record(events_[mark], stream_);
    times_[mark] = kQueued;
  } else {
    times_[mark] = SteadyNanoseconds();
  }
}

void Marks::Finish() {
  if (!device_.queues()) return;
  for (size_t mark = 0; mark < times_.size(); ++mark) {
    if (times_[mark] != kQueued) continue;
    times_[mark] = origin_time_ + absl::ToInt64Nanoseconds(device_.Elapsed(origin_, events_[mark]));
  }
}

}  // namespace sluice
