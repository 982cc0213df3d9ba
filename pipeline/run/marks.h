#ifndef SLUICE_PIPELINE_RUN_MARKS_H_
#define SLUICE_PIPELINE_RUN_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/device/device.h"

namespace sluice {

// Nanoseconds on the steady clock.
int64_t SteadyNanoseconds();

// Moments of a pass, in nanoseconds on the steady clock: by that clock where work is done at once,
// by events on the stream where a device does it later.
class Marks {
 public:
  Marks(Device* device, Stream stream, size_t count);

  // Not OK where the device has no events left.
  absl::Status status() const { return status_; }

  // Before the first mark of a pass, when nothing is queued; forgets the last pass.
  void Start();
  void Set(size_t mark);
  // Once all that was queued is done: before it, a device's marks have no times.
  void Finish();

  // 0: not set in this pass.
  int64_t operator[](size_t mark) const { return times_[mark]; }

 private:
  Device& device_;
  const Stream stream_;
  absl::Status status_;
  std::vector<int64_t> times_;
  // Of a device that queues: the start of the pass, then each mark.
  Event origin_;
  int64_t origin_time_ = 0;
  std::vector<Event> events_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_MARKS_H_
