#include "tests/pipeline/checkpoint/save_tensors.h"

#include <cstdint>
#include <utility>

#include "comm/local/in_process.h"
#include "models/files/safetensors_header.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {

absl::StatusOr<CheckpointFile> FileOf(const std::string& name,
                                      const std::vector<TensorSource>& tensors, int first) {
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

namespace {

// The files of the weights, and their index where there are several.
absl::StatusOr<std::vector<CheckpointFile>> WeightFiles(const std::vector<TensorSource>& weights,
                                                        int64_t shard_bytes) {
  const std::vector<TensorShape> shapes = ShapesOf(weights);
  const std::vector<WeightShard> shards = DivideIntoShards(shapes, shard_bytes);
  std::vector<CheckpointFile> files;
  for (const WeightShard& shard : shards) {
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(shard.first);
    absl::StatusOr<CheckpointFile> file =
        FileOf(shard.name, {first, first + static_cast<std::ptrdiff_t>(shard.count)},
               static_cast<int>(shard.first));
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  if (shards.size() == 1) return files;
  const absl::StatusOr<std::string> index = IndexOf(shapes, shards);
  if (!index.ok()) return index.status();
  files.push_back({.name = kWeightsIndexFile, .head = *index, .bytes = index->size(), .parts = {}});
  return files;
}

}  // namespace

absl::StatusOr<std::string> PathOf(const absl::StatusOr<SaveOutcome>& outcome) {
  if (!outcome.ok()) return outcome.status();
  if (!outcome->failed.ok()) return outcome->failed;
  return outcome->path;
}

absl::StatusOr<std::string> SaveTensors(const std::string& directory, const RunState& state,
                                        const std::vector<TensorSource>& weights,
                                        const std::vector<TensorSource>& optimizer, int keep,
                                        int64_t shard_bytes) {
  const auto moments = static_cast<int>(weights.size());
  absl::StatusOr<std::vector<CheckpointFile>> files = WeightFiles(weights, shard_bytes);
  absl::StatusOr<CheckpointFile> last = FileOf(kOptimizerFile, optimizer, moments);
  if (!files.ok()) return files.status();
  if (!last.ok()) return last.status();
  files->push_back(*std::move(last));
  SaveRequest request;
  request.directory = directory;
  request.state = state;
  request.files = *std::move(files);
  request.timeout = absl::Seconds(60);
  request.keep = keep;
  request.read = [&](const CheckpointPart& part, int64_t at, int64_t /*count*/) {
    const int tensor = part.parameter;
    const std::vector<TensorSource>& file = tensor < moments ? weights : optimizer;
    return file[static_cast<size_t>(tensor < moments ? tensor : tensor - moments)].data + at;
  };
  InProcessGroup alone(1, 16);
  return PathOf(SaveTogether(request, alone.communicator(0)));
}

}  // namespace sluice
