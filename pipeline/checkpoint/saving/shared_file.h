#ifndef SLUICE_PIPELINE_CHECKPOINT_SAVING_SHARED_FILE_H_
#define SLUICE_PIPELINE_CHECKPOINT_SAVING_SHARED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// A file of known length that several processes, on several machines maybe, fill at a time, each
// its own bytes. Errors are FileError's, and name the file.
class SharedFile {
 public:
  // A new file of `bytes` bytes. Its room on the disk is taken at once where the file system can.
  static absl::StatusOr<SharedFile> Create(const std::string& path, uint64_t bytes);
  // One that Create has made. NotFound where it is not to be seen from here.
  static absl::StatusOr<SharedFile> Open(const std::string& path);
  ~SharedFile();
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;

  absl::Status WriteAt(uint64_t offset, const void* data, size_t size) const;
  // Returns once what was written here is on the disk. Calls `next` after every 64 MiB that are,
  // so that whoever watches sees a slow disk from one that hangs, and ends where that is not OK.
  absl::Status Sync(const std::function<absl::Status()>& next) const;

 private:
  SharedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_SAVING_SHARED_FILE_H_
