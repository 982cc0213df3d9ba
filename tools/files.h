#ifndef SLUICE_TOOLS_FILES_H_
#define SLUICE_TOOLS_FILES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// More bytes than any file that is read as a whole should have.
inline constexpr size_t kMostFileBytes = size_t{512} << 20;

// The whole file. NotFound or InvalidArgument names it and says why it cannot be read; also for a
// file with more than kMostFileBytes, or without an end (/dev/zero).
absl::StatusOr<std::string> ReadFile(const std::string& path);
// Writes `text` to `path`, or to stdout when `path` is empty. Fails unless every byte was written; a
// file that was there before is then as it was. A device or a pipe is written to as it is.
absl::Status WriteOutput(const std::string& path, const std::string& text);
// Whether WriteOutput could begin; changes nothing. For what is written after hours of work.
absl::Status CheckOutput(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_TOOLS_FILES_H_
