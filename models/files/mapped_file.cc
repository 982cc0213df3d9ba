#include "models/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/disk.h"
#include "models/files/positioned_file.h"

namespace sluice {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int fd = disk::Open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotOpen(errno, path);
  struct stat info = {};
  absl::Status status;
  MappedFile file;
  file.path_ = path;
  if (fstat(fd, &info) != 0) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path));
  } else if (!S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(
        absl::StrCat(path, " is ", S_ISDIR(info.st_mode) ? "a directory" : "not a regular file",
                     "; expected a file"));
  } else if (info.st_size > 0) {
    const size_t size = static_cast<size_t>(info.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      status = absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", path));
    } else {
      file.data_ = static_cast<const uint8_t*>(data);
      file.size_ = size;
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace sluice
