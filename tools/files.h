#ifndef SLUICE_TOOLS_FILES_H_
#define SLUICE_TOOLS_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// The most bytes that are read as a whole (models/files/positioned_file.h): of tables and texts, of
// JSON, which is parsed up to the same size, and of a secret.
inline constexpr int64_t kMostTextBytes = int64_t{512} << 20;
inline constexpr int64_t kMostJsonBytes = int64_t{64} << 20;
inline constexpr int64_t kMostSecretBytes = int64_t{64} << 10;

// All of stdin. InvalidArgument says why it cannot be read; also where it has more than
// kMostTextBytes, or no end (/dev/zero).
absl::StatusOr<std::string> ReadStandardInput();
// Writes `text` to `path`, or to stdout when `path` is empty, without control characters. Fails
// unless every byte was written; a file that was there before is then as it was. A device, a pipe
// and a stream of this process (/dev/stderr, /dev/fd/3) are written to as they are.
absl::Status WriteOutput(const std::string& path, const std::string& text);
// Whether WriteOutput could begin; changes nothing. For what is written after hours of work.
absl::Status CheckOutput(const std::string& path);
// Writes all of `bytes` to `fd`, an open file. FileError's status names `path`.
absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path);

// The file or directory that `path` stands for, from the root and without links: what is written
// there leaves a link as it is, also one that leads to nothing yet. Where neither a file nor a link
// is there, `path` itself.
std::string TargetOf(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_TOOLS_FILES_H_
