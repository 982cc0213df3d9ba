#ifndef SLUICE_PARTITIONER_BOUNDS_STAGE_CHOICES_H_
#define SLUICE_PARTITIONER_BOUNDS_STAGE_CHOICES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// Everything that each stage could still be in a step shorter than the best one known: a layered
// graph. Its nodes are the cuts that may stand before stage 0, 1, ... and after the last stage; its
// edges are the choices, each from the cut before the stage to the cut after it. Assignments are
// paths from the only cut before stage 0 to the last cut after the last stage.
//
// A Choice has `from` and `to`, the numbers of these cuts among those of their boundary; `bound`,
// seconds that no step which includes the choice falls below; the type Chain of what is counted
// along chains of actions; and Seconds(counts), what such a chain spends in the stage.
template <typename Choice>
class StageChoices {
 public:
  using Chain = typename Choice::Chain;

  int stages() const { return static_cast<int>(choices_.size()); }
  int64_t count() const;
  absl::Span<const Choice> Of(int stage) const { return choices_[stage]; }
  // The choices of `stage` that start at `cut`.
  absl::Span<const Choice> From(int stage, int cut) const;
  // The place of a cut in the vectors by cell below; `boundary` is the stage that it stands before.
  size_t Cell(int boundary, int cut) const {
    return first_cells_[boundary] + static_cast<size_t>(cut);
  }

  // Drops every choice whose bound is `cutoff` or more, then what lies on no path. False when no
  // path is left, as the next one.
  bool DropSlow(double cutoff);
  bool DropDeadEnds();

  // Raises every bound to the least that `chain` takes on paths through the choice; returns [cell]
  // its least seconds from there to the end, infinite where no path leads there.
  std::vector<double> Measure(const Chain& chain);
  // [cell] the least largest bound of a path from there to the end.
  std::vector<double> BoundsToEnd() const;
  // The path whose largest bound is least (exact, by dynamic programming), and that bound; infinite
  // without a path. With `path` null only the value.
  double LeastBound(std::vector<Choice>* path) const;

 protected:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  // Without choices; `cuts` says how many there are at each boundary, one more than stages.
  void Reset(const std::vector<int>& cuts);
  // Choices are added in the order of `from`. After the last one comes Index().
  void Add(int stage, const Choice& choice) { choices_[stage].push_back(choice); }
  void Index();

 private:
  std::vector<double> Cells(double value) const {
    return std::vector<double>(first_cells_.back(), value);
  }

  std::vector<size_t> first_cells_;            // [boundary], and how many cells there are
  std::vector<std::vector<Choice>> choices_;   // [stage] by `from`
  std::vector<std::vector<int64_t>> offsets_;  // [stage][cut] the first choice from there
};

template <typename Choice>
void StageChoices<Choice>::Reset(const std::vector<int>& cuts) {
  first_cells_ = {0};
  for (int count : cuts) first_cells_.push_back(first_cells_.back() + static_cast<size_t>(count));
  choices_.assign(cuts.size() - 1, {});
  Index();
}

template <typename Choice>
void StageChoices<Choice>::Index() {
  offsets_.resize(choices_.size());
  for (size_t stage = 0; stage < choices_.size(); ++stage) {
    std::vector<int64_t>& offsets = offsets_[stage];
    offsets.assign(first_cells_[stage + 1] - first_cells_[stage] + 1, 0);
    for (const Choice& choice : choices_[stage]) ++offsets[static_cast<size_t>(choice.from) + 1];
    for (size_t cut = 1; cut < offsets.size(); ++cut) offsets[cut] += offsets[cut - 1];
  }
}

template <typename Choice>
int64_t StageChoices<Choice>::count() const {
  int64_t count = 0;
  for (const std::vector<Choice>& choices : choices_) count += static_cast<int64_t>(choices.size());
  return count;
}

template <typename Choice>
absl::Span<const Choice> StageChoices<Choice>::From(int stage, int cut) const {
  const std::vector<int64_t>& offsets = offsets_[stage];
  return absl::MakeConstSpan(choices_[stage].data() + offsets[cut],
                             choices_[stage].data() + offsets[static_cast<size_t>(cut) + 1]);
}

template <typename Choice>
bool StageChoices<Choice>::DropSlow(double cutoff) {
  for (std::vector<Choice>& choices : choices_) {
    std::erase_if(choices, [cutoff](const Choice& choice) { return !(choice.bound < cutoff); });
  }
  return DropDeadEnds();
}

template <typename Choice>
bool StageChoices<Choice>::DropDeadEnds() {
  std::vector<char> from_start(first_cells_.back(), 0), to_end = from_start;
  from_start.front() = 1;
  to_end.back() = 1;
  for (int stage = 0; stage < stages(); ++stage) {
    const char* here = from_start.data() + first_cells_[stage];
    char* next = from_start.data() + first_cells_[stage + 1];
    for (const Choice& choice : choices_[stage]) {
      if (here[choice.from]) next[choice.to] = 1;
    }
  }
  for (int stage = stages() - 1; stage >= 0; --stage) {
    const char* reached = from_start.data() + first_cells_[stage];
    const char* next = to_end.data() + first_cells_[stage + 1];
    char* here = to_end.data() + first_cells_[stage];
    std::erase_if(choices_[stage], [=](const Choice& choice) {
      const bool dead = !reached[choice.from] || !next[choice.to];
      if (!dead) here[choice.from] = 1;
      return dead;
    });
  }
  Index();
  return to_end.front() != 0;
}

template <typename Choice>
std::vector<double> StageChoices<Choice>::Measure(const Chain& chain) {
  std::vector<double> to_end = Cells(kInfinity), from_start = to_end;
  to_end.back() = 0;
  from_start.front() = 0;
  for (int stage = stages() - 1; stage >= 0; --stage) {
    const auto& counts = chain.stages[stage];
    double* here = to_end.data() + first_cells_[stage];
    const double* next = to_end.data() + first_cells_[stage + 1];
    for (const Choice& choice : choices_[stage]) {
      const double least = choice.Seconds(counts) + next[choice.to];
      here[choice.from] = std::min(here[choice.from], least);
    }
  }
  for (int stage = 0; stage < stages(); ++stage) {
    const auto& counts = chain.stages[stage];
    const double* here = from_start.data() + first_cells_[stage];
    double* next = from_start.data() + first_cells_[stage + 1];
    const double* rest = to_end.data() + first_cells_[stage + 1];
    for (Choice& choice : choices_[stage]) {
      const double there = here[choice.from] + choice.Seconds(counts);
      next[choice.to] = std::min(next[choice.to], there);
      choice.bound = std::max(choice.bound, there + rest[choice.to]);
    }
  }
  return to_end;
}

template <typename Choice>
std::vector<double> StageChoices<Choice>::BoundsToEnd() const {
  std::vector<double> bounds = Cells(kInfinity);
  bounds.back() = 0;
  for (int stage = stages() - 1; stage >= 0; --stage) {
    double* here = bounds.data() + first_cells_[stage];
    const double* next = bounds.data() + first_cells_[stage + 1];
    for (const Choice& choice : choices_[stage]) {
      here[choice.from] = std::min(here[choice.from], std::max(choice.bound, next[choice.to]));
    }
  }
  return bounds;
}

template <typename Choice>
double StageChoices<Choice>::LeastBound(std::vector<Choice>* path) const {
  const std::vector<double> bounds = BoundsToEnd();
  if (path == nullptr || bounds.front() == kInfinity) return bounds.front();
  path->clear();
  for (int stage = 0, cut = 0; stage < stages(); ++stage) {
    const absl::Span<const Choice> choices = From(stage, cut);
    const auto value = [&](const Choice& choice) {
      return std::max(choice.bound, bounds[Cell(stage + 1, choice.to)]);
    };
    path->push_back(
        *std::min_element(choices.begin(), choices.end(),
                          [&](const Choice& a, const Choice& b) { return value(a) < value(b); }));
    cut = path->back().to;
  }
  return bounds.front();
}

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_STAGE_CHOICES_H_
