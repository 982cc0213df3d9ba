#include "schedules/render/render_text_density.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

size_t PartOf(Op op) {
  return static_cast<size_t>(std::find_if(std::begin(kBarKinds), std::end(kBarKinds) - 1,
                                          [op](const BarKind& kind) { return kind.op == op; }) -
                             std::begin(kBarKinds));
}

}  // namespace

std::vector<ColumnParts> PartsOf(const std::vector<Bar>& bars, double makespan, int columns) {
  std::vector<ColumnParts> parts(columns, ColumnParts{});
  for (const Bar& bar : bars) {
    const double weight = bar.half < 0 ? 1 : 0.5;
    const double from = bar.timed.start * columns / makespan;
    const double to = bar.timed.end * columns / makespan;
    for (int c = static_cast<int>(from); c < columns && c < to; ++c) {
      parts[c][PartOf(bar.timed.action.op)] +=
          weight * (std::min<double>(to, c + 1) - std::max<double>(from, c));
    }
  }
  for (ColumnParts& column : parts) {
    double work = 0;
    for (double part : column) work += part;
    column[kBubblePart] = std::max(0.0, 1 - work);
  }
  return parts;
}

size_t MostOf(const ColumnParts& parts) {
  return static_cast<size_t>(std::max_element(parts.begin(), parts.end()) - parts.begin());
}

Mix MixOf(const ColumnParts& parts) {
  constexpr int kEighths = 8;
  constexpr double kVisible = 1.0 / kEighths;
  // Shares that differ by less count as equal, so that neighbouring columns look alike.
  constexpr double kAlike = 0.1;
  const auto* lower =
      std::find_if(parts.begin(), parts.end() - 1, [](double part) { return part >= kVisible; });
  const auto* most = std::max_element(lower + 1, parts.end());
  if (lower + 1 == parts.end()) return {kBubblePart, kBubblePart, 0};
  const auto* upper =
      std::find_if(lower + 1, parts.end(), [&](double part) { return part >= *most - kAlike; });
  return {static_cast<size_t>(lower - parts.begin()), static_cast<size_t>(upper - parts.begin()),
          static_cast<int>(std::lround(kEighths * *lower))};
}

}  // namespace sluice
