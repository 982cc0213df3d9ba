#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_REPLACED_RUN_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_REPLACED_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

// How a run replaces the checkpoints of another one (--overwrite): they stay until the first of its
// own is whole and `latest`, and then all of them go, so that none is taken for a later step of the
// new run. They are noted in DIR/.sluice/replaced with the checksum of their state.json, and are
// removed only where they still have it; so that a run which is killed in between can be tidied up
// after, however far it came.
//
// A run that goes on from an earlier step than the newest gives up the later ones, which may be
// those of other settings. They are noted likewise, in DIR/.sluice/given-up, and each goes when the
// run has saved a later step than its own.
namespace sluice {

// What tells the checkpoint to which `latest` leads from any other: a checksum. Where that leads to
// none, as after a first save that was cut off before the link was made, of the newest checkpoint;
// "": there is none.
std::string ChecksumOfNewest(const std::string& directory);

// Notes the checkpoints that are in `directory` now; all or none of them where it fails.
absl::Status NoteReplaced(const std::string& directory);

// Removes the noted checkpoints but that of step `saved`, which is the new run's and `latest` now,
// and the note. What cannot be removed stays noted, for the next save to try again. The paths of
// those that are gone, in ascending order of their steps.
std::vector<std::string> RemoveReplaced(const std::string& directory, int64_t saved);

// What a run that was killed left to do: RemoveReplaced where it had saved a checkpoint, that is
// where `latest` is none of those noted. Otherwise they are to stay, and the note is dropped; so
// too where somebody goes on from one of them, that of step `resumed`.
void SettleReplaced(const std::string& directory, std::optional<int64_t> resumed);

// Notes the checkpoints after step `resumed`, from which a run goes on, as given up, and no others;
// nullopt: none.
absl::Status NoteGivenUp(const std::string& directory, std::optional<int64_t> resumed);

// Removes those that were given up of the steps before `saved`, which is the run's own and `latest`
// now. The result is as RemoveReplaced's. `next` is called before each that is removed.
std::vector<std::string> RemoveGivenUp(const std::string& directory, int64_t saved,
                                       const std::function<void()>& next);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_REPLACED_RUN_H_
