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

// When a file of tensors is open: many at once would be more than a process may have.
enum class FileOpen : uint8_t { kAlways, kWhileReading };

// Tensors on the disk: those of one safetensors file, or of the shards of a model (OpenShards).
// They are read at their positions and never mapped, so that a file which another process cuts
// short or writes into meanwhile is an error (DataLoss) and not the end of this process. Any thread
// may read.
class SafetensorsFile {
 public:
  // DataLoss or InvalidArgument names the file and what is wrong (truncated, header, offsets that
  // overlap or leave gaps). As strict as the official reader, and names may not occur twice. A file
  // that is open only for reading must not be replaced in between: reading then is DataLoss.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path,
                                                               FileOpen open = FileOpen::kAlways);
  virtual ~SafetensorsFile() = default;
  // The file, or the index of the shards.
  virtual const std::string& path() const = 0;
  // In the order of their data; those of several shards, shard by shard.
  virtual const std::vector<TensorEntry>& entries() const = 0;
  virtual const std::map<std::string, std::string>& metadata() const = 0;

  // Whether Read will take it: NotFound without such a tensor; InvalidArgument where its shape
  // differs (both shapes named), or its type is none of F32, F16 and BF16.
  virtual absl::Status Check(const std::string& name, const std::vector<int64_t>& shape) const = 0;
  // Copies elements first .. first + count - 1 of `name` as fp32; F16 and BF16 are converted, which
  // is exact. Errors are Check's and those of reading. Requires a range that lies in the tensor.
  virtual absl::Status Read(const std::string& name, const std::vector<int64_t>& shape,
                            int64_t first, int64_t count, float* out) const = 0;
  // All elements.
  absl::Status Read(const std::string& name, const std::vector<int64_t>& shape, float* out) const;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_SAFETENSORS_H_
