#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_RUN_DIRECTORY_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_RUN_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/tcp/tcp_socket.h"
#include "pipeline/checkpoint/directory/folder_lock.h"
#include "pipeline/checkpoint/files/hyper_parameters.h"

namespace sluice {

// A run that is about to save.
struct SavingRun {
  std::string directory;   // of --save
  std::string resume;      // the checkpoint that it goes on from; empty: it starts anew
  bool has_begun = false;  // the checkpoint that it goes on from was read, and may be gone
  bool overwrite = false;  // replace the checkpoints of another run that are in `directory`
  int64_t steps = 0;       // in all; of a resumed run as long as its checkpoint knows no better
  int64_t save_every = 0;  // steps; 0: only at the end
  GivenHyperParameters given = {};  // by which a checkpoint decides what it knows better
  // Of a run that saves an adapter: the model that it is for, as OpenModelWeights takes it; empty:
  // the one that the checkpoint says which it goes on from, or none.
  std::string base = {};
};

// What RunDirectory::RemoveAfter did.
struct RemovedCheckpoints {
  std::vector<std::string> paths;  // those that are gone, the newest first
  bool leaves_some = false;        // whether the run has a checkpoint still
};

// The directory of --save while it is one run's: no other run saves there as long as this lives.
// Rank 0's process has it, from before the training until its end. Reading needs no such thing:
// another run may resume from the directory all the while.
class RunDirectory {
 public:
  // Makes the directory if need be, takes its lock, and finds out what would keep the run from
  // saving before hours go into it. All errors are of bad input but for a full disk
  // (ResourceExhausted): the directory cannot be written; another run is saving there; it holds the
  // checkpoints of another run, and this one neither goes on from one of them nor is to overwrite
  // them, or (before it has begun) both, or one of them is the model that its adapter is for;
  // `latest`, or a name that a checkpoint of this run will need, is not ours; or there is no
  // checkpoint to resume from. Where the run goes on from one of them, those after it are noted as
  // given up (replaced_run.h). `lock`: what a process of the same run has shared that had it before
  // (ShareLock), if any.
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Open(const SavingRun& run,
                                                            Descriptor lock = Descriptor());

  // Removes the checkpoints after `step`, of a run whose later steps were wrong, the newest first,
  // and says which they were. `latest` leads to the newest one that is left before any goes; without
  // one it is removed. An error where the link or a checkpoint cannot be removed: they are then as
  // they were, or fewer.
  absl::StatusOr<RemovedCheckpoints> RemoveAfter(int64_t step) const;

  // As FolderLock::Share: whoever has a copy keeps the directory for the run when this process is
  // gone.
  int ShareLock() const { return lock_->Share(); }

 private:
  RunDirectory(std::string directory, std::unique_ptr<FolderLock> lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}

  const std::string directory_;
  const std::unique_ptr<FolderLock> lock_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_RUN_DIRECTORY_H_
