#ifndef SLUICE_MODELS_DEVICE_INSTANT_H_
#define SLUICE_MODELS_DEVICE_INSTANT_H_

#include <compare>

#include "absl/time/time.h"

namespace sluice {

// A point of the time in which this process runs (RunningClock). All deadlines are of this kind:
// setting the wall clock, or a pause of the whole job, makes no rank late. An Instant has a meaning
// in this process only; other processes are sent durations.
class Instant {
 public:
  // The beginning of the clock.
  constexpr Instant() = default;
  static constexpr Instant InfiniteFuture() { return Instant(absl::InfiniteDuration()); }
  static constexpr Instant InfinitePast() { return Instant(-absl::InfiniteDuration()); }
  static Instant Now();

  friend Instant operator+(Instant instant, absl::Duration duration) {
    return Instant(instant.since_beginning_ + duration);
  }
  friend Instant operator-(Instant instant, absl::Duration duration) {
    return Instant(instant.since_beginning_ - duration);
  }
  friend absl::Duration operator-(Instant to, Instant from) {
    return to.since_beginning_ - from.since_beginning_;
  }
  friend constexpr bool operator==(Instant a, Instant b) {
    return a.since_beginning_ == b.since_beginning_;
  }
  friend constexpr std::strong_ordering operator<=>(Instant a, Instant b) {
    if (a == b) return std::strong_ordering::equal;
    return a.since_beginning_ < b.since_beginning_ ? std::strong_ordering::less
                                                   : std::strong_ordering::greater;
  }

 private:
  explicit constexpr Instant(absl::Duration since_beginning) : since_beginning_(since_beginning) {}

  absl::Duration since_beginning_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_INSTANT_H_
