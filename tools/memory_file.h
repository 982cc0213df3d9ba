#ifndef SLUICE_TOOLS_MEMORY_FILE_H_
#define SLUICE_TOOLS_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

// A file that has no name: nothing of it is left, however this process ends.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("sluice", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  absl::Status status() const {
    if (fd_ >= 0) return absl::OkStatus();
    return absl::ResourceExhaustedError("there can be no more open files");
  }
  int fd() const { return fd_; }
  // By which other processes open it.
  std::string path() const { return absl::StrCat("/proc/", getpid(), "/fd/", fd_); }

 private:
  const int fd_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_MEMORY_FILE_H_
