#ifndef SLUICE_PIPELINE_RUN_ACTION_CLOCK_H_
#define SLUICE_PIPELINE_RUN_ACTION_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/device/device.h"
#include "pipeline/run/marks.h"

namespace sluice {

// When an action ran, on the steady clock, in nanoseconds. Time in which it waited for another rank
// is not part of it.
struct ActionTime {
  int64_t start = 0;
  int64_t end = 0;
  int64_t waited = 0;  // between start and end, for a send to leave

  int64_t busy() const { return end - start - waited; }
};

// Notes when the actions of a pass run.
class ActionClock {
 public:
  ActionClock(Device* device, Stream stream, size_t actions);

  // Not OK where the device has no events left.
  absl::Status status() const { return marks_.status(); }

  // Before the first action of a pass, when nothing is queued; forgets the last pass.
  void Start();
  void Begin(int action) { marks_.Set(2 * static_cast<size_t>(action)); }
  void End(int action) { marks_.Set(2 * static_cast<size_t>(action) + 1); }
  // From the call on, until the object that it returns goes away, `action` waits; none is -1.
  class Waiting {
   public:
    Waiting(ActionClock* clock, int action);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    ActionClock& clock_;
    const int action_;
    const int64_t start_;
  };
  // Once all that was queued is done.
  void Finish();

  // [action], after Finish; of those that did not run, end is 0.
  const std::vector<ActionTime>& times() const { return times_; }

 private:
  const bool queues_;
  Marks marks_;  // [2 * action] its start, [2 * action + 1] its end
  std::vector<ActionTime> times_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_ACTION_CLOCK_H_
