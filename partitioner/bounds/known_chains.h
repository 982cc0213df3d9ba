#ifndef SLUICE_PARTITIONER_BOUNDS_KNOWN_CHAINS_H_
#define SLUICE_PARTITIONER_BOUNDS_KNOWN_CHAINS_H_

#include <vector>

#include "absl/types/span.h"
#include "partitioner/bounds/chain_counts.h"
#include "partitioner/bounds/layer_choices.h"

namespace sluice {

// Chains of a timetable, and how long each of them is with what the stages are now: a look at
// another assignment that costs a sum instead of a simulation, and never says too much.
class KnownChains {
 public:
  explicit KnownChains(int stages) : counts_(stages) {}

  int size() const { return size_; }
  void Add(const ChainCounts& chain);
  // [chain] seconds with `stages`.
  std::vector<double> Seconds(absl::Span<const LayerChoice> stages) const;
  // Adds to `seconds`, a number for each chain, what changes where `stage` becomes `after`.
  void AddChange(int stage, const LayerChoice& before, const LayerChoice& after,
                 double* seconds) const;

 private:
  int size_ = 0;
  std::vector<std::vector<ChainCounts::Stage>> counts_;  // [stage][chain]
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_KNOWN_CHAINS_H_
