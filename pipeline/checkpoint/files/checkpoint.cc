#include "pipeline/checkpoint/files/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "models/files/is_there.h"
#include "models/files/mapped_file.h"
#include "models/files/shards.h"
#include "models/layers/trainable.h"
#include "models/spec/json.h"
#include "models/spec/model_config.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/finite_tensors.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

absl::string_view AsText(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

absl::Status Damaged(const fs::path& file, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(file.string(), " ", what));
}

absl::StatusOr<MappedFile> MapPart(const fs::path& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path.string());
  if (absl::IsNotFound(file.status())) return Damaged(path, "is missing");
  return file;
}

absl::Status VerifyFile(const fs::path& path, const FileRecord& expected) {
  const absl::StatusOr<MappedFile> file = MapPart(path);
  if (!file.ok()) return file.status();
  const absl::Span<const uint8_t> bytes = file->bytes();
  if (bytes.size() != expected.bytes) {
    return Damaged(path, absl::StrCat("is damaged: it has ", bytes.size(), " bytes, ", kStateFile,
                                      " says ", expected.bytes));
  }
  const std::string checksum = Checksum(bytes.data(), bytes.size());
  if (checksum != expected.checksum) {
    return Damaged(path, absl::StrCat("is damaged: its checksum is ", checksum, ", ", kStateFile,
                                      " says ", expected.checksum));
  }
  return absl::OkStatus();
}

bool IsSharded(const std::map<std::string, FileRecord>& files) {
  return files.contains(kWeightsIndexFile);
}

// Whether `files`, of the state.json at `path`, has what a checkpoint needs, and no file elsewhere.
absl::Status CheckListed(const fs::path& path, const std::map<std::string, FileRecord>& files) {
  const char* const weights = HasAdapterOnly(files) ? kAdapterFile
                              : IsSharded(files)    ? kWeightsIndexFile
                                                    : kWeightsFile;
  for (const char* name : {weights, ConfigFileOf(files), kOptimizerFile}) {
    if (!files.contains(name)) return Damaged(path, absl::StrCat("does not list ", name));
  }
  for (const auto& [name, record] : files) {
    if (!IsPlainFileName(name) && !IsKeptFile(name)) {
      return absl::InvalidArgumentError(absl::StrCat(path.string(), " lists ", ShowJson(name),
                                                     ", which is not a file of its folder"));
    }
  }
  return absl::OkStatus();
}

// Reads state.json and verifies it and every other file.
absl::StatusOr<StateFile> Verify(const fs::path& folder) {
  const fs::path path = folder / kStateFile;
  const absl::StatusOr<MappedFile> file = MapPart(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<StateFile> state = ParseState(AsText(*file));
  if (!state.ok()) {
    return absl::Status(state.status().code(),
                        absl::StrCat(path.string(), " ", state.status().message()));
  }
  if (absl::Status status = CheckListed(path, state->files); !status.ok()) return status;
  for (const auto& [name, record] : state->files) {
    const absl::Status status = VerifyFile(folder / name, record);
    if (!status.ok()) return status;
  }
  return state;
}

// The weights of a verified checkpoint: one file, or shards, all of which were verified as well.
absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenWeights(const fs::path& folder,
                                                             const StateFile& state) {
  if (HasAdapterOnly(state.files)) return SafetensorsFile::Open((folder / kAdapterFile).string());
  if (!IsSharded(state.files)) return SafetensorsFile::Open((folder / kWeightsFile).string());
  const fs::path path = folder / kWeightsIndexFile;
  const absl::StatusOr<std::string> text = ReadModelFile(path.string());
  if (!text.ok()) return text.status();
  const absl::StatusOr<ShardIndex> index = ParseShardIndex(*text);
  if (index.ok()) {
    for (const auto& [tensor, file] : index->weight_map) {
      if (!state.files.contains(file)) {
        return Damaged(folder / kStateFile, absl::StrCat("does not list ", file));
      }
    }
  }
  return OpenShards(path.string());
}

bool HasFiniteTensors(const fs::path& folder, const StateFile& state) {
  const auto weights = OpenWeights(folder, state);
  const auto optimizer = SafetensorsFile::Open((folder / kOptimizerFile).string());
  return weights.ok() && optimizer.ok() && CheckFiniteTensors(**weights).ok() &&
         CheckFiniteTensors(**optimizer).ok();
}

// The newest checkpoint in `directory` that is whole and finite, other than that of step `without`,
// earlier ones than `end` first, and if `later_too` then the others; "" without any.
std::string NewestGood(const fs::path& directory, int64_t end, int64_t without,
                       bool later_too = true) {
  std::vector<int64_t> steps = StepsIn(directory.string());
  if (!later_too) std::erase_if(steps, [end](int64_t step) { return step >= end; });
  const auto later = std::lower_bound(steps.begin(), steps.end(), end);
  std::reverse(steps.begin(), later);
  std::reverse(later, steps.end());
  for (const int64_t step : steps) {
    const fs::path folder = directory / StepFolderName(step);
    if (step == without) continue;
    const absl::StatusOr<StateFile> state = Verify(folder);
    if (state.ok() && HasFiniteTensors(folder, *state)) return folder.string();
  }
  return "";
}

// The directory of the checkpoint in `folder`.
fs::path DirectoryOf(const fs::path& folder) {
  return folder.has_parent_path() ? folder.parent_path() : fs::path(".");
}

// "DIR" of "DIR/".
fs::path WithoutSlash(const fs::path& path) {
  return !path.has_filename() && path.has_parent_path() ? path.parent_path() : path;
}

// Whether `path` means the newest checkpoint of a directory, rather than one that somebody chose.
bool MeansNewest(const std::string& path) {
  const fs::path given = WithoutSlash(path);
  return given.filename() == kLatestLink ||
         !(LeadsToFile(given / kStateFile) || ParseStepFolder(given.filename().string()));
}

// Adds to the error of `folder` which checkpoint to take instead.
absl::Status WithAdvice(const absl::Status& status, const fs::path& folder) {
  const int64_t step = ParseStepFolder(folder.filename().string()).value_or(-1);
  const std::string good = NewestGood(DirectoryOf(folder), step, step);
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), good.empty()
                                         ? "; there is no other good checkpoint beside it"
                                         : absl::StrCat("; the newest good checkpoint is ", good,
                                                        ": name it to go on from there")));
}

bool IsLink(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored));
}

// Where `link` leads, so that errors tell the step.
fs::path Follow(const fs::path& link) {
  std::error_code ignored;
  return link.parent_path() / fs::read_symlink(link, ignored);
}

absl::StatusOr<fs::path> StepFolder(const std::string& path) {
  const fs::path given = WithoutSlash(path);
  if (given.filename() == kLatestLink && IsLink(given)) return Follow(given);
  std::error_code error;
  const fs::file_status info = fs::status(given, error);
  if (!fs::exists(info)) {
    return absl::NotFoundError(absl::StrCat("no checkpoint: cannot open ", path,
                                            error ? absl::StrCat(": ", error.message()) : ""));
  }
  if (!fs::is_directory(info)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a directory; expected a checkpoint or a directory of them"));
  }
  if (LeadsToFile(given / kStateFile) || ParseStepFolder(given.filename().string())) return given;
  if (IsLink(given / kLatestLink)) return Follow(given / kLatestLink);
  const std::string good = NewestGood(given, /*end=*/0, /*without=*/-1);
  return absl::NotFoundError(absl::StrCat(
      path, " has no checkpoint '", kLatestLink, "'",
      good.empty() ? "; expected a directory that --save wrote, or one step-... folder of it"
                   : absl::StrCat("; the newest good one is ", good, ": name it to go on")));
}

// Where StepFolder has found none at `path`, with `status`, because there is no `latest`: the
// newest good checkpoint of that directory; "" without any.
std::string WithoutLatest(const std::string& path, const absl::Status& status) {
  if (!absl::IsNotFound(status) || !MeansNewest(path)) return "";
  const fs::path given = WithoutSlash(path);
  const bool names_link = given.filename() == kLatestLink;
  return NewestGood(names_link ? DirectoryOf(given) : given, /*end=*/0, /*without=*/-1);
}

absl::StatusOr<ModelSpec> ReadModel(const fs::path& path, const std::string& name) {
  const absl::StatusOr<MappedFile> file = MapPart(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<ModelSpec> spec = ParseModelConfig(AsText(*file), path.string());
  if (absl::IsNotFound(spec.status())) {  // a family that is not known; the checkpoint is there
    return absl::InvalidArgumentError(spec.status().message());
  }
  if (!spec.ok()) return spec;
  if (absl::Status status = CheckTrainable(*spec); !status.ok()) return status;
  spec->name = name;
  return spec;
}

// The checkpoint in `folder`, all of whose files are `verified`.
absl::StatusOr<LoadedCheckpoint> Load(const fs::path& folder, const StateFile& verified) {
  LoadedCheckpoint checkpoint;
  checkpoint.path = folder.string();
  checkpoint.state = verified.state;
  absl::StatusOr<ModelSpec> model =
      ReadModel(folder / ConfigFileOf(verified.files), checkpoint.state.model.name);
  if (!model.ok()) return model.status();
  checkpoint.state.model = *std::move(model);
  auto weights = OpenWeights(folder, verified);
  if (!weights.ok()) return weights.status();
  auto optimizer = SafetensorsFile::Open((folder / kOptimizerFile).string());
  if (!optimizer.ok()) return optimizer.status();
  checkpoint.weights = *std::move(weights);
  checkpoint.adapter_only = HasAdapterOnly(verified.files);
  checkpoint.optimizer = *std::move(optimizer);
  for (const auto& [name, record] : verified.files) checkpoint.files.push_back(name);
  checkpoint.hash = verified.hash;
  return checkpoint;
}

absl::Status FiniteTensors(const LoadedCheckpoint& checkpoint) {
  absl::Status status = CheckFiniteTensors(*checkpoint.weights);
  return status.ok() ? CheckFiniteTensors(*checkpoint.optimizer) : status;
}

}  // namespace

absl::StatusOr<std::string> FindCheckpoint(const std::string& path) {
  const absl::StatusOr<fs::path> folder = StepFolder(path);
  if (!folder.ok()) return folder.status();
  return folder->string();
}

absl::StatusOr<std::string> FindCheckpointToResume(const std::string& path) {
  const absl::StatusOr<fs::path> folder = StepFolder(path);
  if (folder.ok()) return folder->string();
  const std::string good = WithoutLatest(path, folder.status());
  return good.empty() ? absl::StatusOr<std::string>(folder.status()) : good;
}

absl::StatusOr<LoadedCheckpoint> OpenCheckpoint(const std::string& path) {
  const absl::StatusOr<fs::path> folder = StepFolder(path);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<StateFile> verified = Verify(*folder);
  return verified.ok() ? Load(*folder, *verified) : WithAdvice(verified.status(), *folder);
}

absl::StatusOr<LoadedCheckpoint> OpenNewestGoodCheckpoint(const std::string& path,
                                                          std::string* instead) {
  const absl::StatusOr<fs::path> folder = StepFolder(path);
  if (!folder.ok()) {
    const std::string good = WithoutLatest(path, folder.status());
    if (good.empty()) return folder.status();
    *instead = absl::StrCat(DirectoryOf(good).string(), " has no checkpoint '", kLatestLink,
                            "'; going on from ", good, " instead");
    return OpenCheckpoint(good);
  }
  const absl::StatusOr<StateFile> verified = Verify(*folder);
  absl::Status wrong = verified.status();
  if (verified.ok()) {
    absl::StatusOr<LoadedCheckpoint> newest = Load(*folder, *verified);
    if (!newest.ok()) return newest;
    wrong = FiniteTensors(*newest);
    if (wrong.ok()) return newest;
  }
  if (absl::IsDataLoss(wrong) && MeansNewest(path)) {
    const int64_t step = ParseStepFolder(folder->filename().string()).value_or(-1);
    const std::string good = NewestGood(DirectoryOf(*folder), step, step);
    if (!good.empty()) {
      *instead = absl::StrCat(wrong.message(), "; going on from ", good, " instead");
      return OpenCheckpoint(good);
    }
  }
  return WithAdvice(wrong, *folder);
}

absl::StatusOr<bool> HasCheckpoint(const std::string& path) {
  const absl::StatusOr<fs::path> folder = StepFolder(path);
  if (folder.ok()) return true;
  if (absl::IsNotFound(folder.status()) && StepsIn(path).empty()) return false;
  if (!WithoutLatest(path, folder.status()).empty()) return true;
  return folder.status();
}

absl::StatusOr<ModelFiles> KeptModelFiles(const LoadedCheckpoint& checkpoint) {
  ModelFiles files;
  files.origin = OriginOf(checkpoint.state.more);
  for (const std::string& name : checkpoint.files) {
    if (!IsKeptFile(name) && name != kConfigFile && name != kBaseConfigFile) continue;
    absl::StatusOr<std::string> text = ReadModelFile((fs::path(checkpoint.path) / name).string());
    if (!text.ok()) return text.status();
    files.texts[name == kBaseConfigFile ? kConfigFile : name] = *std::move(text);
  }
  return files;
}

absl::Status CheckFinite(const LoadedCheckpoint& checkpoint) {
  absl::Status status = FiniteTensors(checkpoint);
  return status.ok() ? status : WithAdvice(status, checkpoint.path);
}

std::string NewestGoodCheckpoint(const std::string& path, int64_t step, bool later_too) {
  const fs::path given = WithoutSlash(path);
  const bool is_one = given.filename() == kLatestLink || LeadsToFile(given / kStateFile) ||
                      ParseStepFolder(given.filename().string()).has_value();
  return NewestGood(is_one ? DirectoryOf(given) : given, step + 1, /*without=*/-1, later_too);
}

}  // namespace sluice
