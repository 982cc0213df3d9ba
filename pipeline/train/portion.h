#ifndef SLUICE_PIPELINE_TRAIN_PORTION_H_
#define SLUICE_PIPELINE_TRAIN_PORTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "pipeline/train/metrics.h"

namespace sluice {

// A part of a run about which somebody decides while the run goes on.
struct Portion {
  int64_t steps = 0;          // to take, as far as the run has as many left
  bool evaluates = false;     // after them
  std::string saves_to = {};  // after them: a directory for a checkpoint; empty: none
  // After them: the hash of all weights, which brings them to rank 0. All ranks get it.
  bool hashes = false;
  // Why this process cannot make it. No rank does then, and the run goes on with the next one.
  absl::Status refused = {};
};

// Where the ranks of one process learn what they do next. Each rank asks on its own thread.
class Portions {
 public:
  virtual ~Portions() = default;
  // Portion `number`, the first being 0: the same for all ranks of the run, of other processes too.
  // Waits until it is known; nothing: the run ends.
  virtual std::optional<Portion> Await(int64_t number) = 0;
  // Whether the portion that is being made is to end after the step that is being taken. Asked in
  // every step, and does not wait.
  virtual bool EndsEarly() = 0;
  // How a portion ended, told by every rank of this process; `summary` is of this portion, with the
  // times of this rank, and `checkpoint` of rank 0 alone. An error: it was refused.
  virtual void Ended(int rank, const absl::StatusOr<TrainSummary>& summary) = 0;
};

// Portion `number` of a rank of `world`, by what all ranks have awaited: refused where one of them
// refuses it. Nothing: the run ends. InvalidArgument: another rank was asked for another thing.
absl::StatusOr<std::optional<Portion>> AgreeOnPortion(Portions* portions, int64_t number,
                                                      Communicator* world);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_PORTION_H_
