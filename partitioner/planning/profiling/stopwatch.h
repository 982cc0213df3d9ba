#ifndef SLUICE_PARTITIONER_PLANNING_PROFILING_STOPWATCH_H_
#define SLUICE_PARTITIONER_PLANNING_PROFILING_STOPWATCH_H_

#include <algorithm>
#include <chrono>
#include <vector>

#include "partitioner/costs/profile.h"

namespace sluice {

template <typename Call>
double SecondsOf(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Requires at least one sample.
inline Timing Summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples.front(), samples[samples.size() / 2]};
}

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PROFILING_STOPWATCH_H_
