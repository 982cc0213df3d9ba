#ifndef SLUICE_MODELS_FILES_POSITIONED_FILE_H_
#define SLUICE_MODELS_FILES_POSITIONED_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

// Of a file that open() does not open, with errno `error`. As absl::ErrnoToStatus, but what is none
// of a file's names ("text.txt/") is InvalidArgument, as a directory is.
absl::Status CannotOpen(int error, const std::string& path);

// By which a file is known again, when it is opened once more.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t seconds = 0;  // when its content last changed
  int64_t nanoseconds = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

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
  // When it was opened.
  int64_t size() const { return identity_.size; }
  const FileIdentity& identity() const { return identity_; }
  // FailedPrecondition where its content or its size has changed since it was opened, as far as the
  // file system says when. A file that was replaced by another one (renamed over) has not changed:
  // this object still reads the old one.
  absl::Status CheckUnchanged() const;
  // Fills `bytes` from `offset` on; DataLoss when the file ends before.
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const;

 private:
  PositionedFile(std::string path, int fd, const FileIdentity& identity);

  std::string path_;
  int fd_;
  FileIdentity identity_;
};

// The whole of a file of at most `most` bytes; InvalidArgument for a longer one. Errors name it.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t most);

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_POSITIONED_FILE_H_
