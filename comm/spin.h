#ifndef SLUICE_COMM_SPIN_H_
#define SLUICE_COMM_SPIN_H_

#include "absl/time/time.h"

namespace sluice {

// How long a rank's waits spin before they sleep. Spinning helps only while `roomy`: every rank,
// and every thread of a transport, has a core to itself.
inline absl::Duration SpinOf(bool roomy) {
  return roomy ? absl::Microseconds(100) : absl::ZeroDuration();
}

}  // namespace sluice

#endif  // SLUICE_COMM_SPIN_H_
