#ifndef SLUICE_PIPELINE_CHECKPOINT_SAVING_SAVE_OUTCOME_H_
#define SLUICE_PIPELINE_CHECKPOINT_SAVING_SAVE_OUTCOME_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace sluice {

// The newest checkpoints that a run keeps, unless it is told otherwise.
constexpr int kCheckpointsKept = 2;

// How a save ended on which all ranks are still there, or that was whole before one was lost.
struct SaveOutcome {
  // Of no rank: OK. Otherwise why nothing was saved, the same on every rank, with the rank that could
  // not write (comm/where.h). The ranks may go on, and save again.
  absl::Status failed;
  // Rank 0's, where the checkpoint was saved: its path, and the folders of the checkpoints that were
  // removed, which this run had saved before, or replaces.
  std::string path;
  std::vector<std::string> removed;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_SAVING_SAVE_OUTCOME_H_
