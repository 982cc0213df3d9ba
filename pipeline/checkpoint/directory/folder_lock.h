#ifndef SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_FOLDER_LOCK_H_
#define SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_FOLDER_LOCK_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {

// A lock that one process at a time holds, on this machine or on any that shares the file system:
// the operating system's lock on a file, so that it ends with its process, however that ends. The
// file says who holds it, for messages; it stays when the lock is released, empty, or with the text
// of one that was shared.
class FolderLock {
 public:
  // Takes the lock on the file at `path`, which is made where it is missing. AlreadyExists,
  // at once, where another process holds it (or this one, by another FolderLock): the message is
  // who that is, as "process 1234 on host node7, since 2026-01-31 09:30:00 UTC". Other errors say
  // why the file cannot be opened or locked.
  // `shared`: a descriptor of a lock (Share), which this one then holds, too; where another file is
  // at `path` meanwhile, it is closed, and the lock on that file is taken.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& path,
                                                          Descriptor shared = Descriptor());
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // A descriptor of which another process may be given a copy, so that the lock is taken until both
  // this object and all copies are gone.
  int Share();

 private:
  FolderLock(Descriptor file, bool is_shared) : file_(std::move(file)), is_shared_(is_shared) {}

  const Descriptor file_;
  bool is_shared_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_DIRECTORY_FOLDER_LOCK_H_
