#ifndef SLUICE_TESTS_MODELS_FILES_WRITE_SAFETENSORS_H_
#define SLUICE_TESTS_MODELS_FILES_WRITE_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "models/files/tensors.h"

namespace sluice {

// A tensor with its values: fp32, row-major; the memory stays the caller's.
struct TensorSource {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;
};

std::vector<TensorShape> ShapesOf(const std::vector<TensorSource>& tensors);

// Writes a file of these tensors in the order given, with `metadata` in its header, by the parts
// that runs save with: FormatSafetensorsHead and FileWriter. Errors are theirs.
absl::Status WriteSafetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_FILES_WRITE_SAFETENSORS_H_
