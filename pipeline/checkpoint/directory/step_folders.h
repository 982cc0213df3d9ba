#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_STEP_FOLDERS_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_STEP_FOLDERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

// The folders DIR/step-N and the link DIR/latest, and whether they are ours: other programs use
// such names too.
namespace sluice {

// Whether `folder` is a checkpoint that sluice wrote, whole or damaged: a folder, no link to one,
// with a state.json that begins as ours does.
bool IsCheckpoint(const std::string& folder);

// The steps of the checkpoints in `directory`, in ascending order.
std::vector<int64_t> CheckpointsIn(const std::string& directory);

// Puts `from`, below the own folder, in the place of DIR/step-N; a checkpoint that is there already
// ends where `from` was, or beside it, for ClearOwnFolder. FailedPrecondition where what is there
// is not a checkpoint.
absl::Status MoveIntoPlace(const std::string& from, const std::string& directory, int64_t step);

// FailedPrecondition where DIR/latest is anything but a link to one of these folders beside it, or
// nothing at all.
absl::Status CheckLatestLink(const std::string& directory);

// A link to DIR/step-N, which need not be there yet, in the own folder, which is: all that can fail
// for want of room. ReplaceLatestLink then has DIR/latest lead there.
absl::Status MakeNewLink(const std::string& directory, int64_t step);
absl::Status ReplaceLatestLink(const std::string& directory);
// Both: has DIR/latest lead to step-N beside it, whatever it led to before, so that a crash leaves one of
// the two. The own folder is there.
absl::Status PointLatestLink(const std::string& directory, int64_t step);
// Removes DIR/latest, if it is there.
absl::Status RemoveLatestLink(const std::string& directory);

// Removes DIR/step-N, which must be a checkpoint, such that half a checkpoint never bears its name.
// What cannot be removed stays where it is, or in the own folder for the next save to clear away.
// Whether it is gone from its place.
bool RemoveCheckpoint(const std::string& directory, int64_t step);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_STEP_FOLDERS_H_
