#ifndef SLUICE_MODELS_DEVICE_RUNNING_CLOCK_H_
#define SLUICE_MODELS_DEVICE_RUNNING_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

namespace sluice {

// Counts the time in which a process runs: a steady clock, less the times for which the process was
// stopped (SIGSTOP, a frozen container, a machine that was suspended). All times are in
// nanoseconds.
//
// Nothing tells the clock of a stop, so it looks at the steady clock often: its owner calls Look
// every kTick. If two looks of the process are further apart than kShortestStop, the process was
// stopped in between. Looks that are late by less, as on a loaded machine, change nothing.
//
// After a stop the clock stands still for kGrace: other processes that were stopped too may need a
// moment to run again, and must not be declared lost before that.
class RunningClock {
 public:
  static constexpr int64_t kTick = 25'000'000;
  static constexpr int64_t kShortestStop = 200'000'000;
  static constexpr int64_t kGrace = 250'000'000;
  // A reading this long after the last look does a look by itself. At most this much of a stop
  // counts as time in which the process ran.
  static constexpr int64_t kUnseen = 2 * kTick;

  // `steady` never goes back; any thread may call it.
  explicit RunningClock(std::function<int64_t()> steady);
  RunningClock(const RunningClock&) = delete;
  RunningClock& operator=(const RunningClock&) = delete;

  // From 0, never going back. Any thread may call both.
  int64_t Read();
  void Look() { LookAt(steady_()); }

 private:
  void LookAt(int64_t now);

  const std::function<int64_t()> steady_;
  std::mutex mutex_;  // of those who write what follows
  // The clock shows the steady clock less offset_, but at least floor_.
  std::atomic<int64_t> floor_{0};
  std::atomic<int64_t> offset_;
  std::atomic<int64_t> last_look_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_RUNNING_CLOCK_H_
