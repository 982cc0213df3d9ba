#ifndef SLUICE_PIPELINE_AUDIT_AUDITS_H_
#define SLUICE_PIPELINE_AUDIT_AUDITS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/audit/stage_again.h"
#include "pipeline/audit/verdict.h"
#include "pipeline/audit/weights_seal.h"
#include "pipeline/run/audit_record.h"
#include "pipeline/run/executor.h"

namespace sluice {

// What two ranks do not agree on.
struct AuditFinding {
  enum class Kind : uint8_t {
    kMicroBatch,  // the auditor has computed something else than the audited rank
    kMessage,     // what the first sent to the second
    kWeights,     // of which both make the updates
  };
  Kind kind = Kind::kMicroBatch;
  int audited = 0, auditor = 0;  // ranks of the world; in this order the first and the second
  int stage = 0;                 // of the first
  int micro_batch = -1;          // among those of all replicas; -1: of weights
  std::string difference;        // as DifferenceOf
  Verdict verdict;
};

// What audits have cost.
struct AuditCost {
  int64_t audits = 0;         // audited steps
  int64_t micro_batches = 0;  // computed again, by all ranks
  double seconds = 0;         // that the steps have taken longer
};

// One rank's part in the audits of a run (RunRequest::audit_every). In an audited step every rank
// records what came in and out of one micro-batch, and after the pass sends it, with the stage's
// weights, to its auditor, which computes it again. All ranks compare. Does nothing where the plan
// has no audits. All ranks of `world` call the same at the same time.
class Audits {
 public:
  // `world` joins all ranks by ordinary memory, `tensors` by memory of the state's device; on a CPU
  // they may be one. All must outlive this.
  Audits(RankState* state, Communicator* world, Communicator* tensors, absl::Duration timeout);

  // Before the first step. ResourceExhausted where the device has no memory for the hashes.
  absl::Status Begin();
  // Before the pass of `step`: what is to record it; null where it is not audited.
  AuditRecord* RecordOf(int64_t step);
  // After the pass, before anything changes the gradients or uses the arena's step region: nothing
  // where all agree. The same on every rank.
  absl::StatusOr<std::optional<AuditFinding>> Compare(int64_t step, const Pass& pass,
                                                      const Executor& executor);
  // Whether the weights are what the last update left: the first parameter that is not, or -1.
  // Waits for the device; errors are those of Device::Synchronize.
  absl::StatusOr<int> BrokenWeight();
  // After an update.
  void SealWeights();

  // The last step whose audit of the same stages as in `step` was passed; -1: none.
  int64_t PassedBefore(int64_t step) const;
  // Steps from one audit of a stage to the next one.
  int64_t Cycle() const;
  AuditCost cost() const;

 private:
  // What every rank of the world says: [rank].
  struct Answers {
    std::vector<StageHashes> claimed, computed;
    // The weights of the rank that it audits are what its mirror of them has; true without a
    // mirror.
    std::vector<bool> mirror_agrees;
  };
  struct Work {
    int rank = 0;  // that holds the stage
    AuditTurn turn;
    AuditedCalls calls;
  };
  Work WorkOf(int rank, int64_t step, const Pass& pass, const Executor& executor) const;
  StageHashes Claimed(const AuditTurn& turn) const;
  // Queues the hashes of the weights that `again` has been brought, and of this rank's mirror of
  // them: one of each by turns.
  void HashMirror(const AuditTurn& turn, const StageAgain& again, std::byte* memory);
  bool MirrorAgrees() const;
  absl::StatusOr<StageAgain*> Again(int stage);
  // Passes on what this rank has recorded, does `work` of the rank that it audits, and gathers what
  // all say.
  absl::StatusOr<Answers> ComputeAgain(int64_t step, const Work& work);
  absl::StatusOr<Answers> Gather(const StageHashes& claimed, const StageHashes& computed,
                                 bool mirror_agrees = true);
  // Of what neighbouring stages have sent each other.
  std::optional<AuditFinding> CompareMessages(int64_t step, const Answers& answers) const;
  // Of weights that the ranks of a group, or a rank and its mirror, have not updated alike.
  std::optional<AuditFinding> CompareUpdates(int64_t step, const Answers& answers) const;
  std::optional<AuditFinding> CompareGroup(const RankGroup& group, int64_t step,
                                           const Answers& answers) const;
  absl::StatusOr<AuditFinding> Settle(const Work& work, const Answers& answers);
  // Brings the work to rank `to`, and its answer there; zeros on other ranks.
  absl::StatusOr<StageHashes> AskRank(const Work& work, int to);
  int ThirdFor(const Work& work, const Answers& answers) const;
  absl::StatusOr<StageHashes> Run(const Work& work, StageAgain& again, std::byte* memory);
  // Queues copies of a rank's own tensors, within its memory or to and from the host's.
  void CopyPieces(const TensorPieces& from, const TensorPieces& to);

  RankState& state_;
  const RunPlan& plan_;
  Communicator& world_;
  Communicator& tensors_;
  const absl::Duration timeout_;
  AuditRecord record_;
  WeightsSeal seal_;
  TensorHashes mirror_;
  std::map<int, std::unique_ptr<StageAgain>> again_;  // [stage]
  int64_t first_step_ = -1;                           // audited in this run
  AuditCost cost_;
  double hashing_ = 0;       // seconds of this rank, beside the meetings
  double most_hashing_ = 0;  // of any rank, as of the last audit
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_AUDIT_AUDITS_H_
