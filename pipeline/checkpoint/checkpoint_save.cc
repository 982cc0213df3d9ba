#include <memory>
#include <utility>

#include "models/files/file_writer.h"
#include "pipeline/checkpoint/checkpoint.h"
#include "pipeline/checkpoint/checkpoint_files.h"
#include "pipeline/checkpoint/checkpoint_folder.h"

namespace sluice {
namespace {

absl::StatusOr<FileRecord> WriteTensors(const std::string& path,
                                        const std::vector<TensorSource>& tensors) {
  const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = AppendSafetensors(tensors, TensorMetadata(), **file);
  if (!status.ok()) return status;
  FileRecord record{(*file)->size(), (*file)->checksum()};
  status = (*file)->Commit();
  if (!status.ok()) return status;
  return record;
}

}  // namespace

absl::StatusOr<std::string> SaveCheckpoint(const std::string& directory, const RunState& state,
                                           const std::vector<TensorSource>& weights,
                                           const std::vector<TensorSource>& optimizer, int keep) {
  absl::StatusOr<std::unique_ptr<CheckpointFolder>> folder = CheckpointFolder::Create(directory);
  if (!folder.ok()) return folder.status();
  std::map<std::string, FileRecord> files;
  for (const auto& [name, tensors] :
       {std::pair(kWeightsFile, &weights), {kOptimizerFile, &optimizer}}) {
    const absl::StatusOr<FileRecord> file = WriteTensors((*folder)->path() + "/" + name, *tensors);
    if (!file.ok()) return file.status();
    files[name] = *file;
  }
  return (*folder)->Commit(state, std::move(files), keep);
}

}  // namespace sluice
