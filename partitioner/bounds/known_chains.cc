#include "partitioner/bounds/known_chains.h"

namespace sluice {

void KnownChains::Add(const ChainCounts& chain) {
  for (size_t stage = 0; stage < counts_.size(); ++stage) {
    counts_[stage].push_back(chain.stages[stage]);
  }
  ++size_;
}

std::vector<double> KnownChains::Seconds(absl::Span<const LayerChoice> stages) const {
  std::vector<double> seconds(size_);
  for (size_t stage = 0; stage < counts_.size(); ++stage) {
    for (int chain = 0; chain < size_; ++chain) {
      seconds[chain] += stages[stage].Seconds(counts_[stage][chain]);
    }
  }
  return seconds;
}

void KnownChains::AddChange(int stage, const LayerChoice& before, const LayerChoice& after,
                            double* seconds) const {
  for (int chain = 0; chain < size_; ++chain) {
    const ChainCounts::Stage& counts = counts_[stage][chain];
    seconds[chain] += after.Seconds(counts) - before.Seconds(counts);
  }
}

}  // namespace sluice
