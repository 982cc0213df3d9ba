#ifndef SLUICE_COMM_LINK_PROBE_H_
#define SLUICE_COMM_LINK_PROBE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"

namespace sluice {

inline constexpr int64_t kProbeBytes = int64_t{256} << 10;

// The way from one rank to another, as a message on an idle edge finds it.
struct MeasuredLink {
  double latency = 0;           // seconds of a message of a few bytes
  double seconds_per_byte = 0;  // beyond these

  double Seconds(double bytes) const { return latency + seconds_per_byte * bytes; }
};

// Measures the ways between all ranks of `world`, which call it together: [a * size + b], the same on
// every rank and in both directions, nothing from a rank to itself. Pairs of ranks that share no rank
// are measured at the same time, so that it takes size - 1 rounds of a small message and one of
// kProbeBytes, there and back. Errors are the communicator's.
absl::StatusOr<std::vector<MeasuredLink>> ProbeLinks(Communicator& world, absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_COMM_LINK_PROBE_H_
