#ifndef SLUICE_MODELS_DATA_FILE_BYTES_H_
#define SLUICE_MODELS_DATA_FILE_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// A whole regular file, read into memory. NotFound, PermissionDenied or InvalidArgument (a
// directory, a device) name the file, as does DataLoss when it shrinks while it is read. An empty
// file is fine.
absl::StatusOr<std::vector<uint8_t>> ReadFileBytes(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_FILE_BYTES_H_
