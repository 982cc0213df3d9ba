#include "models/files/shards.h"

#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/files/is_there.h"
#include "models/files/positioned_file.h"
#include "models/spec/json.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexSuffix[] = ".index.json";
constexpr char kPickledModel[] = "pytorch_model.bin";

class Shards : public SafetensorsFile {
 public:
  explicit Shards(std::string path) : path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& entries() const override { return entries_; }
  const std::map<std::string, std::string>& metadata() const override { return metadata_; }

  absl::Status Check(const std::string& name, const std::vector<int64_t>& shape) const override {
    const SafetensorsFile* const shard = ShardWith(name);
    return shard != nullptr ? shard->Check(name, shape) : Lacks(name);
  }
  absl::Status Read(const std::string& name, const std::vector<int64_t>& shape, int64_t first,
                    int64_t count, float* out) const override {
    const SafetensorsFile* const shard = ShardWith(name);
    return shard != nullptr ? shard->Read(name, shape, first, count, out) : Lacks(name);
  }

  absl::Status Add(std::unique_ptr<SafetensorsFile> shard) {
    for (const TensorEntry& entry : shard->entries()) {
      const auto [found, is_new] = shard_with_.try_emplace(entry.name, shard.get());
      if (!is_new) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": tensor '", entry.name,
                         "' is in two shards: ", found->second->path(), " and ", shard->path()));
      }
      entries_.push_back(entry);
    }
    if (shards_.empty()) metadata_ = shard->metadata();
    shards_.push_back(std::move(shard));
    return absl::OkStatus();
  }

  // Whether each tensor is where the index says.
  absl::Status CheckAgainst(const ShardIndex& index) const {
    for (const auto& [tensor, file] : index.weight_map) {
      const SafetensorsFile* const shard = ShardWith(tensor);
      if (shard != nullptr && fs::path(shard->path()).filename() == file) continue;
      return absl::NotFoundError(absl::StrCat(path_, " says that tensor '", tensor, "' is in ",
                                              file, ", which has no such tensor"));
    }
    return absl::OkStatus();
  }

 private:
  const SafetensorsFile* ShardWith(const std::string& name) const {
    const auto found = shard_with_.find(name);
    return found == shard_with_.end() ? nullptr : found->second;
  }
  absl::Status Lacks(const std::string& name) const {
    return absl::NotFoundError(absl::StrCat(path_, " has no tensor '", name, "'"));
  }

  const std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;  // of the first shard; all have the same
  absl::flat_hash_map<std::string, const SafetensorsFile*> shard_with_;
};

absl::StatusOr<ShardIndex> ReadIndex(const std::string& path) {
  const absl::StatusOr<std::string> text =
      ReadWholeFile(path, static_cast<int64_t>(JsonLimits().bytes));
  if (!text.ok()) return text.status();
  absl::StatusOr<ShardIndex> index = ParseShardIndex(*text);
  if (index.ok()) return index;
  return absl::Status(index.status().code(), absl::StrCat(path, ": ", index.status().message()));
}

absl::Status NoWeights(const std::string& folder) {
  return absl::NotFoundError(absl::StrCat(
      folder, " has neither ", kModelFile, " nor ", kModelIndexFile,
      IsThere(fs::path(folder) / kPickledModel)
          ? absl::StrCat("; its ", kPickledModel,
                         " is not read: save the model with transformers as safetensors")
          : "; expected the folder of a model, as transformers saves it"));
}

// The file of a folder that says where its weights are; empty where it has none.
std::string WeightsFileIn(const std::string& folder) {
  for (const char* name : {kModelFile, kModelIndexFile}) {
    if (IsThere(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenShards(const std::string& path) {
  const absl::StatusOr<ShardIndex> index = ReadIndex(path);
  if (!index.ok()) return index.status();
  std::set<std::string> files;
  for (const auto& [tensor, file] : index->weight_map) files.insert(file);
  auto shards = std::make_unique<Shards>(path);
  for (const std::string& file : files) {
    const std::string shard_path = (fs::path(path).parent_path() / file).string();
    absl::StatusOr<std::unique_ptr<SafetensorsFile>> shard =
        SafetensorsFile::Open(shard_path, FileOpen::kWhileReading);
    if (absl::IsNotFound(shard.status())) {
      return absl::NotFoundError(
          absl::StrCat(path, " names a shard that is missing: ", shard.status().message()));
    }
    if (!shard.ok()) return shard.status();
    if (absl::Status status = shards->Add(*std::move(shard)); !status.ok()) return status;
  }
  if (absl::Status status = shards->CheckAgainst(*index); !status.ok()) return status;
  return shards;
}

bool HasModelWeights(const std::string& folder) { return !WeightsFileIn(folder).empty(); }

absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenModelWeights(const std::string& path) {
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? WeightsFileIn(path) : path;
  if (file.empty()) return NoWeights(path);
  return absl::EndsWith(file, kIndexSuffix) ? OpenShards(file) : SafetensorsFile::Open(file);
}

}  // namespace sluice
