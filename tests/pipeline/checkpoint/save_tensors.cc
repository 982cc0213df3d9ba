#include "tests/pipeline/checkpoint/save_tensors.h"

#include <cstdint>
#include <utility>

#include "comm/local/in_process.h"
#include "models/files/safetensors_header.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {

absl::StatusOr<CheckpointFile> FileOf(const char* name, const std::vector<TensorSource>& tensors,
                                      int first) {
  absl::StatusOr<std::string> head = FormatSafetensorsHead(ShapesOf(tensors), TensorMetadata());
  if (!head.ok()) return head.status();
  CheckpointFile file;
  file.name = name;
  file.head = *std::move(head);
  file.bytes = file.head.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    int64_t count = 1;
    for (const int64_t dim : tensors[i].shape) count *= dim;
    file.parts.push_back(
        {.parameter = first + static_cast<int>(i), .count = count, .offset = file.bytes});
    file.bytes += static_cast<uint64_t>(count) * sizeof(float);
  }
  return file;
}

absl::StatusOr<std::string> SaveTensors(const std::string& directory, const RunState& state,
                                        const std::vector<TensorSource>& weights,
                                        const std::vector<TensorSource>& optimizer, int keep) {
  const auto moments = static_cast<int>(weights.size());
  absl::StatusOr<CheckpointFile> first = FileOf(kWeightsFile, weights, 0);
  absl::StatusOr<CheckpointFile> second = FileOf(kOptimizerFile, optimizer, moments);
  if (!first.ok()) return first.status();
  if (!second.ok()) return second.status();
  SaveRequest request;
  request.directory = directory;
  request.state = state;
  request.files = {*std::move(first), *std::move(second)};
  request.timeout = absl::Seconds(60);
  request.keep = keep;
  request.read = [&](const CheckpointPart& part, int64_t at, int64_t /*count*/) {
    const int tensor = part.parameter;
    const std::vector<TensorSource>& file = tensor < moments ? weights : optimizer;
    return file[static_cast<size_t>(tensor < moments ? tensor : tensor - moments)].data + at;
  };
  InProcessGroup alone(1, 16);
  return SaveTogether(request, alone.communicator(0));
}

}  // namespace sluice
