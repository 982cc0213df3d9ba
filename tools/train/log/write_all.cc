#include "tools/train/log/write_all.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"

namespace sluice {

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(errno, absl::StrCat("cannot write ", path));
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace sluice
