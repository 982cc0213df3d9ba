#ifndef SLUICE_PIPELINE_AUDIT_STAGE_AGAIN_H_
#define SLUICE_PIPELINE_AUDIT_STAGE_AGAIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/progress.h"
#include "models/layers/layer.h"
#include "pipeline/run/stage_digest.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/state/tensor_pieces.h"

namespace sluice {

// What decides the bits of a micro-batch's calls besides its tensors; as in LayerCall.
struct AuditedCalls {
  float loss_scale = 0;
  uint64_t seed = 0;
  int64_t first_row = 0;
  bool accumulates = false;  // its gradients are added to those of other micro-batches
};

// One micro-batch of a stage, computed by a rank that need not hold it.
class StageAgain {
 public:
  // `own` is the state of the rank that computes, of a plan with audits; it must outlive this.
  // Errors are those of RunRequest::MakeLayerAt and Device::Allocate.
  static absl::StatusOr<std::unique_ptr<StageAgain>> Create(const RankState& own, int stage);

  // Of the memory that is given below.
  int64_t bytes() const { return audit_.bytes; }
  // Where in `memory` the tensors belong that AuditRecord::Tensors has on the rank that holds the
  // stage, piece by piece.
  TensorPieces Places(std::byte* memory, bool accumulates) const;
  // The stage's weights, as they have been brought, and whether each is trained.
  struct Weight {
    HashedTensor tensor;
    bool trained = false;
  };
  std::vector<Weight> Weights(std::byte* memory) const;
  // Computes with the tensors that have been brought to Places, which are spent then, and waits for
  // the device. `progress` may be null. Errors are those of Device::Synchronize.
  absl::StatusOr<StageHashes> Compute(std::byte* memory, const AuditedCalls& calls,
                                      Progress* progress, Instant deadline);

 private:
  StageAgain(const RankState& own, const StageAudit& audit) : own_(own), audit_(audit) {}
  void* At(std::byte* memory, BufferId buffer) const;
  LayerCall CallOf(std::byte* memory, size_t layer);
  void Call(std::byte* memory, const Instruction& instruction, const AuditedCalls& calls);

  const RankState& own_;
  const StageAudit& audit_;
  std::vector<std::unique_ptr<Layer>> layers_;
  StageDigest digest_;
  // What the spans of a call point into.
  std::vector<void*> tensors_, parameters_;
  std::vector<float*> gradients_;
  // That host and device reach.
  struct Loss {
    double loss = 0;
    int64_t correct = 0;
  };
  DeviceMemory loss_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_AUDIT_STAGE_AGAIN_H_
