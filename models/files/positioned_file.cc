#include "models/files/positioned_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/disk.h"

namespace sluice {
namespace {

FileIdentity IdentityOf(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = info.st_size,
          .seconds = info.st_mtim.tv_sec,
          .nanoseconds = info.st_mtim.tv_nsec};
}

}  // namespace

absl::Status CannotOpen(int error, const std::string& path) {
  absl::Status status = absl::ErrnoToStatus(error, absl::StrCat("cannot open ", path));
  if (!absl::IsFailedPrecondition(status)) return status;
  return absl::InvalidArgumentError(status.message());
}

absl::StatusOr<PositionedFile> PositionedFile::Open(const std::string& path) {
  const int fd = disk::Open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotOpen(errno, path);
  struct stat info = {};
  const int failed = fstat(fd, &info) != 0 ? errno : 0;
  PositionedFile file(path, fd, IdentityOf(info));
  if (failed != 0) return absl::ErrnoToStatus(failed, absl::StrCat("cannot stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is ", S_ISDIR(info.st_mode) ? "a directory" : "not a regular file",
                     "; expected a file"));
  }
  return file;
}

PositionedFile::PositionedFile(std::string path, int fd, const FileIdentity& identity)
    : path_(std::move(path)), fd_(fd), identity_(identity) {}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      identity_(other.identity_) {}

PositionedFile::~PositionedFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status PositionedFile::CheckUnchanged() const {
  struct stat info = {};
  if (fstat(fd_, &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path_));
  if (IdentityOf(info) == identity_) return absl::OkStatus();
  const bool resized = info.st_size != identity_.size;
  return absl::FailedPreconditionError(absl::StrCat(
      path_, resized ? absl::StrCat(" had ", size(), " bytes when it was opened and has ",
                                    info.st_size, " now")
                     : " has been written to since it was opened"));
}

absl::Status PositionedFile::ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const {
  size_t have = 0;
  while (have < bytes.size()) {
    const int64_t at = offset + static_cast<int64_t>(have);
    const ssize_t got = pread(fd_, bytes.data() + have, bytes.size() - have, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, " had ", size(), " bytes when it was opened ",
                                              "and ends at ", at, " now; was it overwritten?"));
    }
    have += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t most) {
  const absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", file->size(), " bytes; expected a file of at most ", most, " bytes"));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  absl::Status status =
      file->ReadAt(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size()));
  if (!status.ok()) return status;
  return text;
}

}  // namespace sluice
