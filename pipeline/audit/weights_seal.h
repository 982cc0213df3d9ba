#ifndef SLUICE_PIPELINE_AUDIT_WEIGHTS_SEAL_H_
#define SLUICE_PIPELINE_AUDIT_WEIGHTS_SEAL_H_

#include <cstdint>
#include <vector>

#include "pipeline/state/rank_state.h"

namespace sluice {

// Hashes of a rank's weights as its last update left them. Nothing writes to them until the next
// one, so weights that have others by then are in memory that does not keep what is written to it.
class WeightsSeal {
 public:
  // `state` is on the CPU, and must outlive this.
  explicit WeightsSeal(const RankState* state) : state_(*state) {}

  // Takes the hashes of all weights as they are now.
  void Take();
  // The first parameter, in canonical order, that has other bits than when the hashes were taken;
  // -1: none.
  int Broken() const;
  // Of a stage's weights, as StageHashes has it.
  uint64_t OfStage(int stage) const;

 private:
  struct Hashes {
    uint64_t weight = 0;
    uint64_t low_halves = 0;  // that this rank keeps

    friend bool operator==(const Hashes&, const Hashes&) = default;
  };
  static Hashes HashesOf(const ParameterView& view);

  const RankState& state_;
  std::vector<Hashes> hashes_;  // [of the rank's parameters]
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_AUDIT_WEIGHTS_SEAL_H_
