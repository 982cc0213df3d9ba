#ifndef SLUICE_PARTITIONER_COSTS_DESCRIBE_MEMORY_H_
#define SLUICE_PARTITIONER_COSTS_DESCRIBE_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"

namespace sluice {

// "1.50 GiB (1610612736 bytes)": for people, and exact.
inline std::string DescribeMemory(int64_t bytes) {
  constexpr double kMebi = 1 << 20, kGibi = 1 << 30;
  const double value = static_cast<double>(bytes);
  const bool large = value >= kGibi;
  return absl::StrFormat("%.2f %s (%d bytes)", value / (large ? kGibi : kMebi),
                         large ? "GiB" : "MiB", bytes);
}

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_DESCRIBE_MEMORY_H_
