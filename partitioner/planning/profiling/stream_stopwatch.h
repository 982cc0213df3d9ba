#ifndef SLUICE_PARTITIONER_PLANNING_PROFILING_STREAM_STOPWATCH_H_
#define SLUICE_PARTITIONER_PLANNING_PROFILING_STREAM_STOPWATCH_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "models/device/device.h"
#include "partitioner/planning/profiling/stopwatch.h"

namespace sluice {

// Measures pieces of work: by the clock where a device does it at once, by events on the stream
// where it is queued and done later.
class StreamStopwatch {
 public:
  StreamStopwatch(Device* device, Stream stream) : device_(*device), stream_(stream) {}

  // Has `call` ask for its work; how many seconds that took is added to `seconds`, which must stay,
  // by Collect at the latest.
  template <typename Call>
  void Measure(const Call& call, std::vector<double>* seconds) {
    if (!device_.queues()) return seconds->push_back(SecondsOf(call));
    const size_t lap = Begin(seconds);
    call();
    End(lap);
  }

  // Waits for what was queued.
  absl::Status Collect(absl::Duration timeout);

 private:
  struct Lap {
    Event begin, end;
    std::vector<double>* seconds = nullptr;
  };

  size_t Begin(std::vector<double>* seconds);
  void End(size_t lap);

  Device& device_;
  const Stream stream_;
  std::vector<Lap> laps_;  // used again after each Collect
  size_t used_ = 0;
  absl::Status status_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PROFILING_STREAM_STOPWATCH_H_
