#ifndef SLUICE_PIPELINE_CHECKPOINT_SAVING_PART_PIECES_H_
#define SLUICE_PIPELINE_CHECKPOINT_SAVING_PART_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "comm/communicator.h"
#include "pipeline/checkpoint/saving/checkpoint_layout.h"
#include "pipeline/run/rounds.h"

namespace sluice {

// Elements first .. first + count - 1 of a part that this rank owns (counted within the part), in
// the host's memory until the next call.
using PartReader =
    std::function<const float*(const CheckpointPart& part, int64_t first, int64_t count)>;

// Moves parts of a checkpoint a MiB at a time, and shows between any two pieces that the rank is
// still there.
class PartPieces {
 public:
  // All must outlive this.
  PartPieces(Communicator* world, Rounds* rounds, const PartReader& read)
      : world_(*world), rounds_(*rounds), read_(read) {}

  // Takes elements first .. first + count - 1 of a part.
  using Use = std::function<absl::Status(const float* values, int64_t first, int64_t count)>;
  // Calls `use` for all of a part that this rank owns, in order.
  absl::Status ForEach(const CheckpointPart& part, const Use& use);
  // Where bytes go: `offset` is into the file.
  using Sink = std::function<void(uint64_t offset, const void* data, size_t size)>;
  absl::Status Write(const CheckpointPart& part, const Sink& sink);
  // To rank 0, which must Receive the same parts in the same order.
  absl::Status Send(const CheckpointPart& part);
  absl::Status Receive(const CheckpointPart& part, const Sink& sink);

 private:
  float* Place(int64_t piece);

  Communicator& world_;
  Rounds& rounds_;
  const PartReader& read_;
  std::vector<float> pieces_;  // under way
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_SAVING_PART_PIECES_H_
