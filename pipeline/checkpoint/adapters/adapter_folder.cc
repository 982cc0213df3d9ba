#include "pipeline/checkpoint/adapters/adapter_folder.h"

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/is_there.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/model_files.h"
#include "pipeline/checkpoint/files/peft_config.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The folder with adapter_config.json that `path` means.
absl::StatusOr<fs::path> FolderOf(const std::string& path) {
  const bool is_adapter = LeadsToFile(fs::path(path) / kAdapterConfigFile);
  if (is_adapter && !LeadsToFile(fs::path(path) / kStateFile)) return fs::path(path);
  const auto none = [&](const absl::Status& why) {
    return absl::Status(
        why.code(), absl::StrCat("no adapter in ", path, ": expected ", kAdapterConfigFile, " and ",
                                 kAdapterFile, ", as PEFT and 'train --lora --save' write them",
                                 why.message().empty() ? "" : "; ", why.message()));
  };
  const absl::StatusOr<std::string> found = FindCheckpoint(path);
  if (!found.ok()) return none(found.status());
  if (!LeadsToFile(fs::path(*found) / kAdapterConfigFile)) return none(absl::NotFoundError(""));
  const absl::StatusOr<LoadedCheckpoint> verified = OpenCheckpoint(*found);
  if (!verified.ok()) return verified.status();
  return fs::path(*found);
}

std::vector<LinearMap> MapsOf(const DecoderConfig& config, const Lora& lora) {
  std::vector<LinearMap> adapted;
  for (int64_t block = 0; block < config.layers; ++block) {
    for (LinearMap& map : LinearMapsOf(config, block)) {
      if (lora.Targets(map.name)) adapted.push_back(std::move(map));
    }
  }
  return adapted;
}

}  // namespace

absl::StatusOr<AdapterFolder> OpenAdapter(const std::string& path) {
  const absl::StatusOr<fs::path> folder = FolderOf(path);
  if (!folder.ok()) return folder.status();
  const std::string file = (*folder / kAdapterConfigFile).string();
  const absl::StatusOr<std::string> text = ReadModelFile(file);
  if (!text.ok()) return text.status();
  AdapterFolder adapter;
  adapter.path = folder->string();
  auto tensors = SafetensorsFile::Open((*folder / kAdapterFile).string());
  if (!tensors.ok()) return tensors.status();
  adapter.tensors = *std::move(tensors);
  std::vector<std::string> names;
  for (const TensorEntry& entry : adapter.tensors->entries()) names.push_back(entry.name);
  absl::StatusOr<Lora> lora = ParsePeftConfig(*text, file, names);
  if (!lora.ok()) return lora.status();
  adapter.lora = *std::move(lora);
  return adapter;
}

absl::StatusOr<std::vector<LinearMap>> AdaptedMaps(const AdapterFolder& adapter,
                                                   const DecoderConfig& config) {
  std::vector<LinearMap> maps = MapsOf(config, adapter.lora);
  const int64_t rank = adapter.lora.rank;
  std::set<std::string> known;
  for (const LinearMap& map : maps) {
    const std::string a = AdapterA(map.name), b = AdapterB(map.name);
    absl::Status status = adapter.tensors->Check(a, {rank, map.in});
    if (status.ok()) status = adapter.tensors->Check(b, {map.out, rank});
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the adapter is not of this model, or not whole: ", std::string(status.message())));
    }
    known.insert({a, b});
  }
  for (const TensorEntry& entry : adapter.tensors->entries()) {
    if (known.contains(entry.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(adapter.tensors->path(), ": '", entry.name,
                                                   "' belongs to no linear map of ",
                                                   "this model's blocks that ", kAdapterConfigFile,
                                                   " names; expected the adapter of this model"));
  }
  return maps;
}

}  // namespace sluice
