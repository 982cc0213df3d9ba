#ifndef SLUICE_PARTITIONER_MINIMAX_H_
#define SLUICE_PARTITIONER_MINIMAX_H_

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "partitioner/partition.h"

namespace sluice {

struct MinimaxAnswer {
  double value = 0;
  Partition partition;
};

// The partition of `layers` layers into exactly `stages` non-empty stages whose largest stage cost
// is least; nullopt when every one has an infinite cost. `cost(stage, first, end)` prices layers
// first..end - 1 as stage `stage` and may be any function, infinite where the stage is forbidden.
// Exact: best[s][j], the least largest cost of the first s stages over the first j layers, is min
// over i of max(best[s - 1][i], cost(s - 1, i, j)). Calls `cost` stages * layers^2 / 2 times.
template <typename Cost>
std::optional<MinimaxAnswer> MinimaxPartition(int layers, int stages, const Cost& cost) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, kInfinity));
  std::vector<std::vector<int>> cut(stages + 1, std::vector<int>(layers + 1, -1));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s) {
    for (int i = s - 1; i < layers; ++i) {
      if (best[s - 1][i] == kInfinity) continue;
      for (int j = s == stages ? layers : i + 1; j <= layers - (stages - s); ++j) {
        const double value = std::max(best[s - 1][i], cost(s - 1, i, j));
        if (value < best[s][j]) {
          best[s][j] = value;
          cut[s][j] = i;
        }
      }
    }
  }
  if (best[stages][layers] == kInfinity) return std::nullopt;
  MinimaxAnswer answer{best[stages][layers], Partition(stages)};
  for (int s = stages, end = layers; s > 0; --s) {
    answer.partition[s - 1] = {cut[s][end], end - 1};
    end = cut[s][end];
  }
  return answer;
}

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_MINIMAX_H_
