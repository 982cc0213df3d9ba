#ifndef SLUICE_MODELS_FILES_POSITIONED_FILE_H_
#define SLUICE_MODELS_FILES_POSITIONED_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

// A regular file that stays open and is read piece by piece, from any thread. Unlike a mapped file
// it may be truncated meanwhile: reading then returns an error.
class PositionedFile {
 public:
  // NotFound, PermissionDenied or InvalidArgument (a directory, a device) name the file. An empty
  // file is fine.
  static absl::StatusOr<PositionedFile> Open(const std::string& path);

  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) = delete;
  ~PositionedFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened
  // Fills `bytes` from `offset` on; DataLoss when the file ends before.
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const;

 private:
  PositionedFile(std::string path, int fd, int64_t size);

  std::string path_;
  int fd_;
  int64_t size_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_POSITIONED_FILE_H_
