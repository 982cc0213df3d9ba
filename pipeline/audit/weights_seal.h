#ifndef SLUICE_PIPELINE_AUDIT_WEIGHTS_SEAL_H_
#define SLUICE_PIPELINE_AUDIT_WEIGHTS_SEAL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/device/instant.h"
#include "pipeline/run/tensor_hashes.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Hashes of a rank's weights as its last update left them. Nothing writes to them until the next
// one, so weights that have others by then are in memory that does not keep what is written to it.
class WeightsSeal {
 public:
  // `state` must outlive this.
  explicit WeightsSeal(const RankState* state) : state_(*state) {}
  // Before anything else; errors are those of TensorHashes::Open.
  absl::Status Open();

  // Takes the hashes of all weights as the stream's work so far leaves them.
  void Take();
  // The first parameter, in canonical order, that has other bits now than when the hashes were
  // taken; -1: none. Waits for the stream's work; errors are those of Device::Synchronize.
  absl::StatusOr<int> Broken(Instant deadline);
  // Of a stage's weights, as StageHashes has it; once the work before Take is done.
  uint64_t OfStage(int stage) const;

 private:
  // Each weight, then what this rank keeps of its low halves.
  void Add(TensorHashes* hashes) const;

  const RankState& state_;
  TensorHashes sealed_, now_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_AUDIT_WEIGHTS_SEAL_H_
