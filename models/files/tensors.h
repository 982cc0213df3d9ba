#ifndef SLUICE_MODELS_FILES_TENSORS_H_
#define SLUICE_MODELS_FILES_TENSORS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "models/files/file_writer.h"

namespace sluice {

// A tensor to be written: fp32, row-major; the memory stays the caller's.
struct TensorSource {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;
  // Appends the data instead, where they are not in memory as a whole; called when it is their
  // turn.
  std::function<absl::Status(FileWriter& file)> append = {};
};

// A tensor of a safetensors file.
struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "F16", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // into the data section
  uint64_t end = 0;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_TENSORS_H_
