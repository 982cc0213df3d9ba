#ifndef SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_
#define SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "partitioner/bounds/stage_choices.h"

namespace sluice {

// Chains of actions collected as proof. A step takes at least as long as any chain of its
// timetable, and what a chain takes is a sum over stages; so the least that it takes over all
// assignments, before and after any stage, is a shortest path. These lengths bound every assignment
// that includes a given choice, and every completion of a partial one.
template <typename Choice>
class ChainPool {
 public:
  using Chain = typename Choice::Chain;

  int size() const { return static_cast<int>(measured_.size()); }
  // What `chain` counts in `stage`.
  const typename Chain::Stage& counts(int chain, int stage) const {
    return measured_[chain].chain.stages[stage];
  }
  // Least seconds of `chain` from the cut of a cell (StageChoices::Cell) to the end; infinite where
  // no choices lead there.
  double ToEnd(int chain, size_t cell) const { return measured_[chain].to_end[cell]; }

  // Adds a chain of the timetable, and raises the bound of every choice to what the chain says.
  void Add(Chain chain, StageChoices<Choice>* choices) {
    std::vector<double> to_end = choices->Measure(chain);
    measured_.push_back({std::move(chain), std::move(to_end)});
  }
  // Measures all chains again, over the choices that are left, and raises their bounds.
  void Refresh(StageChoices<Choice>* choices) {
    for (Measured& each : measured_) each.to_end = choices->Measure(each.chain);
  }

 private:
  struct Measured {
    Chain chain;
    std::vector<double> to_end;  // [cell] seconds
  };

  std::vector<Measured> measured_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_
