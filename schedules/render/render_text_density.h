#ifndef SLUICE_SCHEDULES_RENDER_RENDER_TEXT_DENSITY_H_
#define SLUICE_SCHEDULES_RENDER_RENDER_TEXT_DENSITY_H_

#include <array>
#include <iterator>
#include <vector>

#include "schedules/render/render_common.h"

// Text charts whose columns stand for several bars each.
namespace sluice {

// The shares of a column's time that each of kBarKinds took; the last one is the share of the
// bubble. They add up to 1.
constexpr size_t kBubblePart = std::size(kBarKinds);
using ColumnParts = std::array<double, std::size(kBarKinds) + 1>;

// The mixes of `columns` columns, each of which covers makespan / columns. The halves of a pair
// share their time.
std::vector<ColumnParts> PartsOf(const std::vector<Bar>& bars, double makespan, int columns);

// What a coloured column shows: the first of its shares that is large enough to be seen, in eighths
// of the column, and above it the largest of the shares after that one.
struct Mix {
  size_t lower, upper;
  int eighths;
};
Mix MixOf(const ColumnParts& parts);

// The kind with the largest share.
size_t MostOf(const ColumnParts& parts);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_RENDER_TEXT_DENSITY_H_
