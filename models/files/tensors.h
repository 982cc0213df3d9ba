#ifndef SLUICE_MODELS_FILES_TENSORS_H_
#define SLUICE_MODELS_FILES_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// A tensor to be written, row-major.
struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";  // or "F16", "BF16"
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
