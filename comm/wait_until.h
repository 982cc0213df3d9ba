#ifndef SLUICE_COMM_WAIT_UNTIL_H_
#define SLUICE_COMM_WAIT_UNTIL_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace sluice {

// Waits until `done()`; false when `deadline` came first. absl::InfiniteFuture() is no deadline.
template <typename Done>
bool WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
               absl::Time deadline, const Done& done) {
  if (deadline == absl::InfiniteFuture()) {
    changed.wait(lock, done);
    return true;
  }
  return changed.wait_until(lock, absl::ToChronoTime(deadline), done);
}

}  // namespace sluice

#endif  // SLUICE_COMM_WAIT_UNTIL_H_
