#include "models/tokens/split.h"

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

// Parts from left to right; each that `joins(part, last)` allows becomes one with that before it.
template <typename Joins>
void JoinWithPrevious(const Joins& joins, std::vector<Part>* parts) {
  size_t kept = 0;
  bool last_was_match = false;
  for (const Part& part : *parts) {
    if (kept > 0 && joins(part.is_match, last_was_match)) {
      (*parts)[kept - 1].end = part.end;
    } else {
      (*parts)[kept++] = part;
    }
    last_was_match = part.is_match;
  }
  parts->resize(kept);
}

// The same from right to left.
template <typename Joins>
void JoinWithNext(const Joins& joins, std::vector<Part>* parts) {
  std::vector<Part> words;
  bool last_was_match = false;
  for (size_t i = parts->size(); i-- > 0;) {
    const Part& part = (*parts)[i];
    if (!words.empty() && joins(part.is_match, last_was_match)) {
      words.back().begin = part.begin;
    } else {
      words.push_back(part);
    }
    last_was_match = part.is_match;
  }
  parts->assign(words.rbegin(), words.rend());
}

}  // namespace

void ApplyBehavior(SplitBehavior behavior, bool invert, std::vector<Part>* parts) {
  if (invert) {
    for (Part& part : *parts) part.is_match = !part.is_match;
  }
  // Of a row of matches only the first belongs to its neighbour.
  const auto first_match = [](bool is_match, bool last) { return is_match && !last; };
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kRemoved:
      parts->erase(std::remove_if(parts->begin(), parts->end(),
                                  [](const Part& part) { return part.is_match; }),
                   parts->end());
      return;
    case SplitBehavior::kContiguous:
      return JoinWithPrevious([](bool is_match, bool last) { return is_match == last; }, parts);
    case SplitBehavior::kMergedWithPrevious:
      return JoinWithPrevious(first_match, parts);
    case SplitBehavior::kMergedWithNext:
      return JoinWithNext(first_match, parts);
  }
}

}  // namespace sluice
