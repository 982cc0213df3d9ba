#ifndef SLUICE_TOOLS_TRAIN_LOG_WRITE_ALL_H_
#define SLUICE_TOOLS_TRAIN_LOG_WRITE_ALL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Writes all of `bytes` to `fd`, an open file. FileError's status names `path`.
absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_WRITE_ALL_H_
