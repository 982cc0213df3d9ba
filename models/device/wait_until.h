#ifndef SLUICE_MODELS_DEVICE_WAIT_UNTIL_H_
#define SLUICE_MODELS_DEVICE_WAIT_UNTIL_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "models/device/instant.h"

namespace sluice {

// The time until `deadline`, for waits of the standard library, which have no infinite time. After
// a pause the remaining time is longer than it seemed, so a wait that ends must check again.
inline std::chrono::nanoseconds TimeUntil(Instant deadline) {
  const absl::Duration left = deadline - Instant::Now();
  return absl::ToChronoNanoseconds(std::clamp(left, absl::ZeroDuration(), absl::Hours(1)));
}

// Waits until `done()`; false when `deadline` came first.
template <typename Done>
bool WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
               Instant deadline, const Done& done) {
  while (!done()) {
    if (Instant::Now() >= deadline) return false;
    changed.wait_for(lock, TimeUntil(deadline));
  }
  return true;
}

inline void SleepUntil(Instant instant) {
  while (Instant::Now() < instant) std::this_thread::sleep_for(TimeUntil(instant));
}

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_WAIT_UNTIL_H_
