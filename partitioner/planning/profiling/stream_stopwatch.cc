#include "partitioner/planning/profiling/stream_stopwatch.h"

namespace sluice {

size_t StreamStopwatch::Begin(std::vector<double>* seconds) {
  if (used_ == laps_.size()) {
    Lap& made = laps_.emplace_back();
    for (Event* event : {&made.begin, &made.end}) {
      const absl::StatusOr<Event> fresh = device_.NewEvent();
      status_.Update(fresh.status());
      if (fresh.ok()) *event = *fresh;
    }
  }
  Lap& lap = laps_[used_];
  lap.seconds = seconds;
  if (status_.ok()) device_.Record(lap.begin, stream_);
  return used_++;
}

void StreamStopwatch::End(size_t lap) {
  if (status_.ok()) device_.Record(laps_[lap].end, stream_);
}

absl::Status StreamStopwatch::Collect(absl::Duration timeout) {
  status_.Update(device_.Synchronize(stream_, Instant::Now() + timeout));
  for (size_t i = 0; status_.ok() && i < used_; ++i) {
    const Lap& lap = laps_[i];
    lap.seconds->push_back(absl::ToDoubleSeconds(device_.Elapsed(lap.begin, lap.end)));
  }
  used_ = 0;
  return status_;
}

}  // namespace sluice
