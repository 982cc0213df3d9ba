#include "tests/models/files/write_safetensors.h"

#include <memory>

#include "models/files/file_writer.h"
#include "models/files/safetensors_header.h"

namespace sluice {

std::vector<TensorShape> ShapesOf(const std::vector<TensorSource>& tensors) {
  std::vector<TensorShape> shapes;
  shapes.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) shapes.push_back({tensor.name, tensor.shape});
  return shapes;
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  const absl::StatusOr<std::string> head = FormatSafetensorsHead(ShapesOf(tensors), metadata);
  if (!head.ok()) return head.status();
  const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(*head);
  for (const TensorSource& tensor : tensors) {
    size_t bytes = sizeof(float);
    for (const int64_t dim : tensor.shape) bytes *= static_cast<size_t>(dim);
    if (status.ok()) status = (*file)->Append(tensor.data, bytes);
  }
  return status.ok() ? (*file)->Commit() : status;
}

}  // namespace sluice
