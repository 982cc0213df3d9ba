#ifndef SLUICE_MODELS_FILES_FILE_WRITER_H_
#define SLUICE_MODELS_FILES_FILE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A new file that either is on the disk as a whole or does not exist. Append, then Commit; without
// Commit, or after an error, the destructor removes what was written. A full disk (or quota, or
// file size limit) is ResourceExhausted; every error names the file.
class FileWriter {
 public:
  // Nothing appears at `path` before Commit: data go to a temporary file beside it.
  static absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& path);
  virtual ~FileWriter() = default;

  virtual absl::Status Append(const void* data, size_t size) = 0;
  absl::Status Append(absl::string_view text) { return Append(text.data(), text.size()); }
  // Flushes to the disk, renames to `path` (replacing what was there) and flushes the directory.
  // Call it once, last.
  virtual absl::Status Commit() = 0;

  // Of the bytes appended so far: their number, and XXH3-128 as 32 lower-case hexadecimal digits.
  virtual uint64_t size() const = 0;
  virtual std::string checksum() const = 0;
};

// What the name of one of FileWriter's temporary files says, which is there for good where its
// writer was killed.
struct TemporaryName {
  std::string file;     // the name of the file that was to be written
  int64_t process = 0;  // that wrote it
};
// Of `name`, without a directory; nothing where FileWriter gives no such name.
std::optional<TemporaryName> ParseTemporaryName(absl::string_view name);

// XXH3-128 of `size` bytes, as FileWriter::checksum.
std::string Checksum(const void* data, size_t size);

// Makes the changes in `directory` (files created, renamed, removed) survive a power failure.
absl::Status SyncDirectory(const std::string& directory);

// The status of a failed system call. Like absl::ErrnoToStatus, but a file size limit (EFBIG) is
// ResourceExhausted too.
absl::Status FileError(int error_number, absl::string_view what);

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_FILE_WRITER_H_
