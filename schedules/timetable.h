#ifndef SLUICE_SCHEDULES_TIMETABLE_H_
#define SLUICE_SCHEDULES_TIMETABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/action.h"

namespace sluice {

constexpr int kNoStage = -1;

// Which rank holds which stage. A stage is one contiguous run of layers; a rank with several stages
// (chunks) holds them in ascending order. There may be several copies of the model, each a whole
// pipeline: stage s is then part s mod model_stages() of the model, and data never pass between
// copies.
class Placement {
 public:
  // Stage s on rank s mod ranks (Megatron's interleaving; with one chunk, the plain pipeline).
  static Placement Looped(int ranks, int chunks = 1);
  // Chunks alternate direction: stage s of chunk c on rank s - c*ranks when c is even, mirrored
  // when odd (ZB-V).
  static Placement V(int ranks, int chunks = 2);
  // Two copies of the model (Chimera): stages 0..ranks-1 on ranks 0..ranks-1, and stages
  // ranks..2*ranks-1, the second copy of the same layers, on ranks ranks-1..0.
  static Placement Bidirectional(int ranks);
  // One copy, with any map stage -> rank. InvalidArgument when a rank of 0..max has no stage or the
  // map is empty.
  static absl::StatusOr<Placement> FromRanks(std::vector<int> rank_of_stage);
  // Stages that several ranks share (StageDeal), each on the first of its ranks, ascending. Only for
  // drawing: a table on this placement is neither run nor validated.
  static Placement OfFirstRanks(std::vector<int> first_ranks, int ranks);

  int ranks() const { return ranks_; }
  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  // Copies of the model; 1 but for Bidirectional.
  int copies() const { return copies_; }
  // Stages of one copy, and which of them `stage` is.
  int model_stages() const { return stages() / copies_; }
  int model_stage(int stage) const { return copies_ == 1 ? stage : stage % model_stages(); }
  // Which copy `stage` belongs to, 0..copies-1.
  int copy(int stage) const { return copies_ == 1 ? 0 : stage / model_stages(); }
  // The stage that feeds `stage`, and the one that it feeds; kNoStage at the ends of each copy.
  // A `stage` outside 0..stages-1 has neither.
  int PreviousStage(int stage) const {
    return stage >= stages() || model_stage(stage) == 0 ? kNoStage : stage - 1;
  }
  int NextStage(int stage) const {
    if (stage + 1 >= stages()) return kNoStage;
    return copies_ > 1 && model_stage(stage + 1) == 0 ? kNoStage : stage + 1;
  }
  // Largest number of stages that one rank holds.
  int chunks() const { return chunks_; }
  int rank(int stage) const { return rank_of_stage_[stage]; }
  const std::vector<int>& rank_of_stage() const { return rank_of_stage_; }
  // The stages of `rank`, ascending.
  std::vector<int> StagesOf(int rank) const;

 private:
  Placement() = default;
  int ranks_ = 0;
  int chunks_ = 0;
  int copies_ = 1;
  std::vector<int> rank_of_stage_;
};

// When a stage's weights change.
enum class WeightUpdates : uint8_t {
  // Once, after the last micro-batch (synchronous): the pipeline drains, or flushes.
  kFlush,
  // After each micro-batch's backward (PipeDream): a stage's forward uses the newest weights, and
  // the backward of the micro-batch the same ones, kept (stashed) until then.
  kEachMicroBatch,
  // After every `update_every` micro-batches' backwards (PipeDream-2BW): micro-batch b uses the
  // weights that exist after max(b / update_every - 1, 0) updates, so two versions are enough.
  kDoubleBuffered,
};

// Who computes what, in which order: one row of actions per rank. The times at which actions run
// are not part of it; Simulate() finds them.
struct Timetable {
  std::string name;  // the catalogue name or the file it came from
  Placement placement = Placement::Looped(1);
  int micro_batches = 0;
  // Asynchronous tables cover a whole run without a flush. Their rows say where each stage's
  // weights change: OPTIMIZER_STEP of the stage, its micro-batch the last one that it includes.
  WeightUpdates updates = WeightUpdates::kFlush;
  int update_every = 0;  // micro-batches that an update of kDoubleBuffered includes; else 0
  std::vector<std::vector<Action>> rows;  // [rank][position]

  // Which copy of the model `micro_batch` runs through: contiguous blocks, so that each copy sums
  // gradients in micro-batch order.
  int copy(int micro_batch) const {
    return static_cast<int>(int64_t{micro_batch} * placement.copies() / micro_batches);
  }
  // Whether `micro_batch` runs through `stage`.
  bool Visits(int micro_batch, int stage) const {
    return placement.copies() == 1 || copy(micro_batch) == placement.copy(stage);
  }
  // How many micro-batches run through `stage`.
  int MicroBatchesOf(int stage) const;
  // True when the rows hold sends and receives.
  bool lowered() const;
  // Whether weight gradients are actions of their own.
  bool splits_backward() const;
  int64_t action_count() const;
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_TIMETABLE_H_
