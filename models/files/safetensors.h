#ifndef SLUICE_MODELS_FILES_SAFETENSORS_H_
#define SLUICE_MODELS_FILES_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/files/tensors.h"

namespace sluice {

// The safetensors format (huggingface/safetensors): 8 bytes little-endian header length, a JSON
// header padded with spaces to a multiple of 8 bytes, the data without gaps.

// A memory-mapped safetensors file.
class SafetensorsFile {
 public:
  // DataLoss or InvalidArgument names the file and what is wrong (truncated, header, offsets that
  // overlap or leave gaps). As strict as the official reader, and names may not occur twice.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  virtual ~SafetensorsFile() = default;
  virtual const std::string& path() const = 0;
  // In the order of their data.
  virtual const std::vector<TensorEntry>& entries() const = 0;
  virtual const std::map<std::string, std::string>& metadata() const = 0;
  // Copies `name` as fp32 (F32, F16 and BF16 are converted). NotFound, or InvalidArgument when the
  // shape differs (both shapes named).
  virtual absl::Status Read(const std::string& name, const std::vector<int64_t>& shape,
                            float* out) const = 0;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_SAFETENSORS_H_
