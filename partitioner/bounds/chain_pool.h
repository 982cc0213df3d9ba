#ifndef SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_
#define SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"
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
  using Counts = typename Chain::Stage;

  int size() const { return static_cast<int>(chains_.size()); }
  // [chain] what each chain counts in `stage`.
  absl::Span<const Counts> CountsIn(int stage) const { return counts_[stage]; }
  // [chain][cell] least seconds of each chain from the cut of a cell (StageChoices::Cell) to the
  // end; infinite where no choices lead there.
  absl::Span<const std::vector<double>> to_end() const { return to_end_; }

  // Adds a chain of the timetable, and raises the bound of every choice to what the chain says.
  void Add(Chain chain, StageChoices<Choice>* choices) {
    to_end_.push_back(choices->Measure(chain));
    counts_.resize(chain.stages.size());
    for (size_t stage = 0; stage < counts_.size(); ++stage) {
      counts_[stage].push_back(chain.stages[stage]);
    }
    chains_.push_back(std::move(chain));
  }
  // Measures all chains again, over the choices that are left, and raises their bounds.
  void Refresh(StageChoices<Choice>* choices) {
    for (size_t i = 0; i < chains_.size(); ++i) to_end_[i] = choices->Measure(chains_[i]);
  }

 private:
  std::vector<Chain> chains_;
  std::vector<std::vector<Counts>> counts_;  // [stage][chain], side by side for the search
  std::vector<std::vector<double>> to_end_;  // [chain][cell] seconds
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_
