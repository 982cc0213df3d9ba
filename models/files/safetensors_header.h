#ifndef SLUICE_MODELS_FILES_SAFETENSORS_HEADER_H_
#define SLUICE_MODELS_FILES_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/files/tensors.h"

namespace sluice {

// The JSON header of a safetensors file.
struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

constexpr uint64_t kSafetensorsLengthBytes = 8;
constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;  // the official reader's limit

// What a file of these tensors begins with: the length of the header, and the header, padded with
// spaces so that the data begin at a multiple of 8 bytes. The data follow without gaps, in the
// order of `tensors`. InvalidArgument for a name that occurs twice, is reserved or is not UTF-8, and
// for a negative dimension.
absl::StatusOr<std::string> FormatSafetensorsHead(
    const std::vector<TensorShape>& tensors, const std::map<std::string, std::string>& metadata);

// Checks everything that can be checked against `data_bytes`, the size of the data after the
// header. Errors do not name the file.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes);

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_SAFETENSORS_HEADER_H_
