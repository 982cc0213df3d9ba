#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_CHECKPOINT_FOLDER_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/checkpoint/directory/own_folder.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {

// A checkpoint that is in its place.
struct CommittedFolder {
  std::string path;
  std::vector<std::string> removed;  // the paths of those that it replaced or made superfluous
};

// A checkpoint below `directory` that is being written: made, and at the end committed, by one
// process, filled by any number of them. What an earlier one left behind by a crash is cleared away
// when it is made; when it ends without Commit, nothing is left behind. One at a time may exist of
// a directory: who saves there holds its RunDirectory.
class CheckpointFolder {
 public:
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Create(const std::string& directory);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Of SavingFolder, which is path().
  uint64_t nonce() const { return nonce_; }
  std::string path() const { return SavingFolder(directory_, nonce_); }

  // Adds config.json, the model's other files, and state.json, which lists them and `files`, all on
  // the disk by now; puts the folder in its place, points `latest` to it, and removes what this run
  // replaces or gave up, and all but the newest `keep` of the checkpoints up to this step; the
  // newest one up to each step of `stays` stays, too. FailedPrecondition where its name, or
  // `latest`, belongs to something that sluice did not make. Call it once.
  // `next` is called between pieces of this work, for whoever watches its progress.
  absl::StatusOr<CommittedFolder> Commit(const RunState& state,
                                         std::map<std::string, FileRecord> files, int keep,
                                         const std::vector<int64_t>& stays,
                                         const std::function<void()>& next);

 private:
  CheckpointFolder(std::string directory, uint64_t nonce)
      : directory_(std::move(directory)), nonce_(nonce) {}
  absl::Status WriteTexts(const RunState& state, std::map<std::string, FileRecord> files) const;

  const std::string directory_;
  const uint64_t nonce_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_CHECKPOINT_FOLDER_H_
