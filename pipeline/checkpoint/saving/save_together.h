#ifndef SLUICE_PIPELINE_CHECKPOINT_SAVING_SAVE_TOGETHER_H_
#define SLUICE_PIPELINE_CHECKPOINT_SAVING_SAVE_TOGETHER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/checkpoint/files/run_state.h"
#include "pipeline/checkpoint/saving/checkpoint_layout.h"
#include "pipeline/checkpoint/saving/save_outcome.h"

namespace sluice {

// Elements first .. first + count - 1 of a part that this rank owns (counted within the part), in
// the host's memory until the next call.
using PartReader =
    std::function<const float*(const CheckpointPart& part, int64_t first, int64_t count)>;

// What a rank brings to a checkpoint that all ranks write.
struct SaveRequest {
  std::string directory;  // as this rank sees it
  RunState state;         // rank 0's is written
  std::vector<CheckpointFile> files;
  PartReader read;
  // Asked once `read` is no longer needed. An error says that what was read may not be what was
  // there (a device that was lost meanwhile), and is that of this rank's part of the save.
  std::function<absl::Status()> check_read = {};
  // Called once `read` is no longer needed, if the ranks get that far: what it reads may then change.
  std::function<void()> on_read = {};
  absl::Duration timeout;  // for a rank to show that it is still there
  int keep = kCheckpointsKept;
  // The newest checkpoint up to each of these steps stays, too.
  std::vector<int64_t> stays = {};
};

// Saves DIRECTORY/step-N (replacing a checkpoint that is there), N = state.step, points `latest` to
// it, and removes what the run replaces or gave up (directory/replaced_run.h) and all but the
// newest `keep` and those that stay of the checkpoints up to N; nothing else there is touched. One
// run at a time may save to a directory: run_directory.h keeps others out.
// Where a rank cannot write, all go on to the end together and SaveOutcome::failed says why:
// ResourceExhausted when the disk is full, FailedPrecondition where step-N, `latest` or .sluice is
// not ours, InvalidArgument when a hyper-parameter is not finite or `more` is no JSON object. After
// that, and after any error, the checkpoints that were there are untouched, and nothing else is left
// behind but DIRECTORY/.sluice.
//
// Every rank writes what it owns straight into files that rank 0 has made; rank 0 then puts the
// whole in its place, so that all of it is there or nothing, whoever fails and whenever. The ranks
// tell each other little but checksums, which go from owner to owner in the order of the file.
//
// A rank that does not see rank 0's new folder (another machine, without a file system that both
// share) sends its parts to rank 0, a piece at a time.
//
// Called by every rank of `world`, with the same files. An error is of the messages between ranks,
// of which one is lost; the rank that gets it has aborted with it. Where that happens once rank 0
// has put the checkpoint in its place, rank 0 has aborted, too, but gets the outcome: only it can
// tell that the checkpoint is there.
absl::StatusOr<SaveOutcome> SaveTogether(const SaveRequest& request, Communicator& world);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_SAVING_SAVE_TOGETHER_H_
