#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_OWN_FOLDER_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_OWN_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

// DIR/.sluice, where DIR is the directory of --save: everything there that is not a checkpoint.
// Saving touches no other name of DIR but those of checkpoints that sluice wrote itself, and
// `latest`. ../README.md lists what may be in it.
namespace sluice {

constexpr char kOwnFolder[] = ".sluice";
constexpr char kLockFile[] = "lock";          // folder_lock.h
constexpr char kReplacedFile[] = "replaced";  // replaced_run.h
constexpr char kGivenUpFile[] = "given-up";   // likewise
constexpr char kNewLink[] = "latest";         // which replaces DIR/latest by a rename

// DIR/.sluice/NAME.
std::string OwnPath(const std::string& directory, const std::string& name);

// Makes `directory`, the directories above it, and its own folder, marked as ours; what is missing
// is made so that it survives a power failure. FailedPrecondition where DIR/.sluice is something
// that sluice did not make.
absl::Status MakeOwnFolder(const std::string& directory);

// Removes what a save that was interrupted left in the own folder, by the exact names that saves
// use, after `directory` was flushed; where that fails, it stays. Only for who holds the lock, or
// is otherwise alone in saving to `directory`.
void ClearOwnFolder(const std::string& directory);

// A number that nobody could know beforehand, below 2^48, so that a double carries it.
uint64_t SomeNonce();

// DIR/.sluice/saving-NONCE, where the ranks of a run write a checkpoint until it is committed. Who
// finds a folder of this name shares rank 0's file system.
std::string SavingFolder(const std::string& directory, uint64_t nonce);
// DIR/.sluice/removing-NONCE, where a checkpoint is moved before it is removed, so that half a
// checkpoint never bears the name of one.
std::string RemovingFolder(const std::string& directory, uint64_t nonce);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_OWN_FOLDER_H_
