#include "models/device/instant.h"

#include <chrono>
#include <thread>

#include "models/device/running_clock.h"

namespace sluice {
namespace {

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// With a thread that checks for stops as long as the process lives. Neither is ever deleted: other
// threads may ask for the time while the program ends.
RunningClock& StartClock() {
  static constexpr std::chrono::nanoseconds kTick{RunningClock::kTick};
  auto* clock = new RunningClock(SteadyNanoseconds);
  std::thread([clock] {
    while (true) {
      std::this_thread::sleep_for(kTick);
      clock->Look();
    }
  }).detach();
  return *clock;
}

}  // namespace

Instant Instant::Now() {
  static RunningClock& clock = StartClock();
  return Instant(absl::Nanoseconds(clock.Read()));
}

}  // namespace sluice
