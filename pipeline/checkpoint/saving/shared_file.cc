#include "pipeline/checkpoint/saving/shared_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/disk.h"
#include "models/files/file_writer.h"

namespace sluice {
namespace {

constexpr size_t kLargestWrite = size_t{1} << 30;  // the kernel stops a little below 2 GiB
constexpr off_t kFlushed = off_t{64} << 20;        // at a time

// Whether the file system cannot take room beforehand, as opposed to having none.
bool CannotReserve(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == EPERM;
}

absl::Status SetLength(int fd, uint64_t bytes, const std::string& path) {
  const auto length = static_cast<off_t>(bytes);
  if (length == 0 || disk::Reserve(fd, length) == 0) return absl::OkStatus();
  if (CannotReserve(errno) && disk::Truncate(fd, length) == 0) return absl::OkStatus();
  return FileError(errno, absl::StrCat("cannot write ", path));
}

}  // namespace

absl::StatusOr<SharedFile> SharedFile::Create(const std::string& path, uint64_t bytes) {
  const int fd = disk::Open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return FileError(errno, absl::StrCat("cannot create ", path));
  SharedFile file(path, fd);
  if (absl::Status status = SetLength(fd, bytes, path); !status.ok()) return status;
  return file;
}

// For writing only: a network file system then never reads a page of which it has a part, and
// never writes back what others have written to it since.
absl::StatusOr<SharedFile> SharedFile::Open(const std::string& path) {
  const int fd = disk::Open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, absl::StrCat("cannot open ", path));
  return SharedFile(path, fd);
}

SharedFile::~SharedFile() {
  if (fd_ >= 0) close(fd_);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

absl::Status SharedFile::WriteAt(uint64_t offset, const void* data, size_t size) const {
  const char* next = static_cast<const char*>(data);
  auto at = static_cast<off_t>(offset);
  for (size_t left = size; left > 0;) {
    const ssize_t written = disk::WriteAt(fd_, next, std::min(left, kLargestWrite), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, absl::StrCat("cannot write ", path_));
    next += written;
    at += written;
    left -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status SharedFile::Sync(const std::function<absl::Status()>& next) const {
  constexpr unsigned kAllOfIt =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  struct stat now = {};
  const off_t bytes = fstat(fd_, &now) == 0 ? now.st_size : 0;
  for (off_t at = 0; at < bytes; at += kFlushed) {
    // Where the file system cannot do this, fsync flushes all; it finds the errors of both.
    if (sync_file_range(fd_, at, kFlushed, kAllOfIt) != 0) break;
    if (absl::Status status = next(); !status.ok()) return status;
  }
  if (disk::Sync(fd_) == 0) return absl::OkStatus();
  return FileError(errno, absl::StrCat("cannot flush ", path_));
}

}  // namespace sluice
