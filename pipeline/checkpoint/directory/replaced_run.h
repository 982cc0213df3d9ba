#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_REPLACED_RUN_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_REPLACED_RUN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

// How a run replaces the checkpoints of another one (--overwrite): they stay until the first of its
// own is whole and `latest`, and then all of them go, so that none is taken for a later step of the
// new run. They are noted in DIR/.sluice/replaced with the checksum of their state.json, and are
// removed only where they still have it; so that a run which is killed in between can be tidied up
// after, however far it came.
namespace sluice {

// What tells the checkpoint to which `latest` leads from any other: a checksum; "": it leads to
// none.
std::string ChecksumOfLatest(const std::string& directory);

// Notes the checkpoints that are in `directory` now; all or none of them where it fails.
absl::Status NoteReplaced(const std::string& directory);

// Removes the noted checkpoints but that of step `saved`, which is the new run's and `latest` now,
// and the note. What cannot be removed stays noted, for the next save to try again.
void RemoveReplaced(const std::string& directory, int64_t saved);

// What a run that was killed left to do: RemoveReplaced where it had saved a checkpoint, that is
// where `latest` is none of those noted. Otherwise they are to stay, and the note is dropped; so
// too where somebody goes on from one of them, that of step `resumed`.
void SettleReplaced(const std::string& directory, std::optional<int64_t> resumed);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_REPLACED_RUN_H_
