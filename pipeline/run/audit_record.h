#ifndef SLUICE_PIPELINE_RUN_AUDIT_RECORD_H_
#define SLUICE_PIPELINE_RUN_AUDIT_RECORD_H_

#include <cstdint>

#include "pipeline/compile/plan/program.h"
#include "pipeline/compile/plan/stage_audit.h"
#include "pipeline/run/stage_digest.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/state/tensor_pieces.h"

namespace sluice {

// What a rank keeps of one micro-batch of one of its stages, while a pass runs, so that another
// rank can compute it again: what it came with, in the arena (AuditOffsets), and hashes of what
// became of it.
class AuditRecord {
 public:
  // `state` must outlive this.
  explicit AuditRecord(RankState* state);
  // Before anything else; errors are those of TensorHashes::Open.
  absl::Status Open();

  // What to record of the next pass.
  void Begin(const AuditTurn& turn);
  // Before and after a call of a layer, of any stage and micro-batch, by the training program.
  void Before(const Instruction& instruction, const LayerCall& call);
  void After(const Instruction& instruction, const LayerCall& call);

  // Of the last pass: all that the micro-batch came with, as StageAgain::Places has it.
  TensorPieces Tensors() const;
  // Of the last pass, whose work must be done, but for the weights.
  StageHashes Hashes() const { return digest_.Hashes(); }
  // Seconds of the host that recording has taken so far.
  double seconds() const { return seconds_; }

 private:
  // The layer's position in the stage; -1: the call is of none that is recorded.
  int LayerIn(const Instruction& instruction) const;
  void Keep(int64_t offset, const void* tensor, int64_t bytes);
  void KeepGradients(int local, const LayerCall& call);

  RankState& state_;
  AuditTurn turn_;
  RankStage stage_;
  StageDigest digest_;
  bool forward_done_ = false;  // of the first layer
  bool accumulates_ = false;   // gradients of the micro-batch are added to others
  double seconds_ = 0;
};

// Whether the gradients of the micro-batch are added to those of others, on the rank that runs
// `program`.
bool Accumulates(const RankProgram& program, const AuditTurn& turn);

// The local layers of the rank's stage.
RankStage StageOf(const RankProgram& program, int stage);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_AUDIT_RECORD_H_
