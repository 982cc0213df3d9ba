#ifndef SLUICE_SCHEDULES_RENDER_RENDER_TEXT_DENSITY_H_
#define SLUICE_SCHEDULES_RENDER_RENDER_TEXT_DENSITY_H_

#include <array>
#include <iterator>
#include <vector>

#include "schedules/render/render_common.h"

// Text charts whose columns stand for several bars each.
namespace sluice {

// The part of a column's time that each of kBarKinds took; the last is the bubble's. Their sum
// is 1.
constexpr size_t kBubblePart = std::size(kBarKinds);
using ColumnParts = std::array<double, std::size(kBarKinds) + 1>;

// Of `columns` columns that each cover makespan / columns. The halves of a pair share their time.
std::vector<ColumnParts> PartsOf(const std::vector<Bar>& bars, double makespan, int columns);

// What a column in colour shows: the first of its parts that is large enough to be seen, in eighths
// of the column, and above it the largest of those after it.
struct Mix {
  size_t lower, upper;
  int eighths;
};
Mix MixOf(const ColumnParts& parts);

// The largest part.
size_t MostOf(const ColumnParts& parts);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_RENDER_TEXT_DENSITY_H_
