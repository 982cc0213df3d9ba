#include "models/data/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<std::vector<uint8_t>> ReadFileBytes(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is ", S_ISDIR(info.st_mode) ? "a directory" : "not a regular file",
                     "; expected a file"));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = read(fd, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, " shrank from ", bytes.size(), " to ", have,
                                              " bytes while it was read"));
    }
    have += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace sluice
