#ifndef SLUICE_PARTITIONER_COSTS_LINK_H_
#define SLUICE_PARTITIONER_COSTS_LINK_H_

#include <cstdint>
#include <limits>

namespace sluice {

// The way between two neighbouring ranks, in each direction.
struct Link {
  double latency = 0;                                          // seconds
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second

  double Seconds(double bytes) const { return latency + bytes / bandwidth; }
  double Seconds(int64_t bytes) const { return Seconds(static_cast<double>(bytes)); }
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_LINK_H_
