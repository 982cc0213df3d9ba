#ifndef SLUICE_PARTITIONER_CUTS_MINIMAX_H_
#define SLUICE_PARTITIONER_CUTS_MINIMAX_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/partition.h"

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

// The same where `cost` never falls when a range grows at either end, as time and memory do: then
// a limit can be met if and only if every stage in turn, taking as many layers as the limit allows,
// gets to the end; and the least such limit is found by halving, then by asking for less than what
// was found. Calls `cost` some hundred times stages * log2(layers).
template <typename Cost>
class MonotoneMinimax {
 public:
  MonotoneMinimax(int layers, int stages, const Cost& cost)
      : layers_(layers), stages_(stages), cost_(cost) {}

  std::optional<MinimaxAnswer> Run() const {
    std::optional<MinimaxAnswer> best = Within(std::numeric_limits<double>::max());
    if (!best) return std::nullopt;
    double below = 0;  // what is known not to do, or to be the least there can be
    for (int round = 0; round < kHalvings && below < best->value; ++round) {
      const double middle = below + (best->value - below) / 2;
      if (std::optional<MinimaxAnswer> found = Within(middle)) {
        best = std::move(found);
      } else {
        below = middle;
      }
    }
    while (std::optional<MinimaxAnswer> found = Within(std::nextafter(best->value, -1.0))) {
      best = std::move(found);
    }
    return best;
  }

 private:
  static constexpr int kHalvings = 40;

  // A partition whose stages cost at most `limit` each.
  std::optional<MinimaxAnswer> Within(double limit) const {
    MinimaxAnswer answer;
    int first = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      const int most = layers_ - (stages_ - 1 - stage);
      // The last stage takes all that is left.
      int low = stage + 1 == stages_ ? most : first + 1, high = most;
      double value = cost_(stage, first, low);
      if (!(value <= limit)) return std::nullopt;
      while (low < high) {
        const int middle = low + (high - low + 1) / 2;
        const double there = cost_(stage, first, middle);
        if (there <= limit) {
          low = middle;
          value = there;
        } else {
          high = middle - 1;
        }
      }
      answer.value = std::max(answer.value, value);
      answer.partition.push_back({first, low - 1});
      first = low;
    }
    return answer;
  }

  int layers_, stages_;
  const Cost& cost_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CUTS_MINIMAX_H_
