#include "pipeline/checkpoint/files/model_folder.h"

#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/kernels/kernels.h"
#include "models/layers/trainable.h"
#include "models/spec/model_config.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/model_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kByteValues = 256;
constexpr char kTextFingerprint[] = "text:";  // of a data set whose tokens are bytes

// Whether it is the link to the newest checkpoint of a run.
bool IsLatestLink(const fs::path& path) {
  std::error_code ignored;
  return path.filename() == kLatestLink &&
         ParseStepFolder(fs::read_symlink(path, ignored).string()).has_value();
}

// Not a folder of ours (state.json, step-..., latest), and one that transformers could have saved.
bool IsHuggingFaceFolder(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kConfigFile, ignored) && !fs::exists(folder / kStateFile, ignored) &&
         !ParseStepFolder(folder.filename().string()).has_value() && !IsLatestLink(folder);
}

absl::Status CheckContinuesText(const ModelSpec& spec, const std::string& folder) {
  if (spec.decoder() != nullptr) return CheckTrainable(spec);
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " is an MLP's ('", spec.name,
                   "'), which classifies images; only a GPT continues text"));
}

absl::Status CheckHasModel(const LoadedCheckpoint& checkpoint) {
  if (!checkpoint.adapter_only) return absl::OkStatus();
  const std::string& base = checkpoint.state.base;
  return absl::InvalidArgumentError(absl::StrCat(
      checkpoint.path, " has an adapter, and not the model that it is for; give --load ",
      base.empty() ? "the model's folder" : base, " --adapter ", checkpoint.path));
}

}  // namespace

absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& path) {
  const fs::path given = path;
  const fs::path folder = given.has_filename() ? given : given.parent_path();  // "DIR/"
  if (IsHuggingFaceFolder(folder)) {
    const std::string file = (folder / kConfigFile).string();
    const absl::StatusOr<std::string> text = ReadModelFile(file);
    if (!text.ok()) return text.status();
    absl::StatusOr<ModelSpec> spec = ParseModelConfig(*text, file);
    if (!spec.ok()) return spec.status();
    if (absl::Status status = CheckContinuesText(*spec, folder.string()); !status.ok())
      return status;
    const bool bytes = spec->decoder()->vocab == kByteValues;
    return ModelFolder{.spec = *std::move(spec), .path = folder.string(), .reads_bytes = bytes};
  }
  const absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(path);
  if (!checkpoint.ok()) return checkpoint.status();
  const RunState& state = checkpoint->state;
  absl::Status status = CheckContinuesText(state.model, checkpoint->path);
  if (status.ok()) status = CheckHasModel(*checkpoint);
  if (!status.ok()) return status;
  const bool bytes = absl::StartsWith(state.data_fingerprint, kTextFingerprint) &&
                     state.model.decoder()->vocab >= kByteValues;
  return ModelFolder{.spec = state.model, .path = checkpoint->path, .reads_bytes = bytes};
}

absl::StatusOr<std::vector<std::vector<ParameterDecl>>> DeclareParameters(const ModelSpec& spec) {
  std::vector<std::vector<ParameterDecl>> layers;
  for (int index = 0; index < spec.layer_count(); ++index) {
    const absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeLayer(spec, index, {.size = 1, .seq = 1}, DType::kFloat32, CpuKernels());
    if (!layer.ok()) return layer.status();
    layers.push_back((*layer)->decl().parameters);
  }
  return layers;
}

}  // namespace sluice
