#ifndef SLUICE_PARTITIONER_COSTS_LINK_LIMITS_H_
#define SLUICE_PARTITIONER_COSTS_LINK_LIMITS_H_

namespace sluice {

// What a link may be said to do, in flags and in files. Times beyond may not be finite in sums.
inline constexpr double kLeastBandwidth = 1;  // bytes per second
inline constexpr double kMostLatency = 1e6;   // seconds, as far as a graph's own times go

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_LINK_LIMITS_H_
