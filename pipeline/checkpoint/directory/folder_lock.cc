#include "pipeline/checkpoint/directory/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "comm/printable.h"
#include "models/files/disk.h"
#include "models/files/file_writer.h"
#include "models/files/host_name.h"

namespace sluice {
namespace {

constexpr size_t kLongestHolder = 512;

std::string Holder() {
  return absl::StrCat("process ", getpid(), " on host ", HostName(), ", since ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::Now(), absl::UTCTimeZone()),
                      "\n");
}

// What the holder wrote.
std::string ReadHolder(int fd) {
  std::array<char, kLongestHolder> text = {};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  absl::StripAsciiWhitespace(&holder);
  return holder.empty() ? "a process that has just begun" : ToPrintableLine(holder);
}

// 0, or why not.
int LockAtOnce(int fd) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Whether the file was removed, or replaced, between opening and locking it.
bool IsGone(int fd, const std::string& path) {
  struct stat locked = {};
  struct stat there = {};
  return fstat(fd, &locked) != 0 || stat(path.c_str(), &there) != 0 ||
         locked.st_ino != there.st_ino || locked.st_dev != there.st_dev;
}

absl::Status SayWho(int fd, const std::string& path) {
  const std::string holder = Holder();
  if (disk::Truncate(fd, 0) == 0) {
    const ssize_t written = disk::WriteAt(fd, holder.data(), holder.size(), 0);
    if (written == static_cast<ssize_t>(holder.size())) return absl::OkStatus();
    if (written >= 0) errno = ENOSPC;
  }
  return FileError(errno, absl::StrCat("cannot write ", path));
}

absl::Status Refusal(int error, int fd, const std::string& path) {
  if (error == EWOULDBLOCK) return absl::AlreadyExistsError(ReadHolder(fd));
  // By its number an error of a network file system's would be that of a lost rank.
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot lock ", path, ": ", std::strerror(error), "; expected a file system that has locks"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& path,
                                                             Descriptor shared) {
  Descriptor file = std::move(shared);
  bool is_shared = file.valid() && !IsGone(file.get(), path);
  for (;; is_shared = false) {
    if (!is_shared) {
      file = Descriptor(
          disk::Open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    }
    const int fd = file.get();
    if (!file.valid()) return FileError(errno, absl::StrCat("cannot open ", path));
    const int error = LockAtOnce(fd);  // of a shared one, which is locked, too
    absl::Status status = error == 0 ? absl::OkStatus() : Refusal(error, fd, path);
    if (status.ok() && IsGone(fd, path)) continue;
    if (status.ok()) status = SayWho(fd, path);
    if (!status.ok()) return status;
    return std::unique_ptr<FolderLock>(new FolderLock(std::move(file), is_shared));
  }
}

int FolderLock::Share() {
  is_shared_ = true;
  return file_.get();
}

FolderLock::~FolderLock() {
  // Somebody else may hold the lock on.
  if (is_shared_) return;
  // A text that stays names a process of the past; nobody reads it without finding the lock taken.
  [[maybe_unused]] const int emptied = disk::Truncate(file_.get(), 0);
}

}  // namespace sluice
