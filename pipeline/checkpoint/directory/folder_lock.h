#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_FOLDER_LOCK_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_FOLDER_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// A lock that one process at a time holds, on this machine or on any that shares the file system:
// the operating system's lock on a file, so that it ends with its process, however that ends. The
// file says who holds it, for messages; it stays when the lock is released, empty.
class FolderLock {
 public:
  // Takes the lock on the file at `path`, which is made where it is missing. AlreadyExists,
  // at once, where another process holds it (or this one, by another FolderLock): the message is
  // who that is, as "process 1234 on host node7, since 2026-01-31 09:30:00 UTC". Other errors say
  // why the file cannot be opened or locked.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  const int fd_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_FOLDER_LOCK_H_
