#include "tools/train/model_choice.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/files/is_there.h"
#include "models/files/positioned_file.h"
#include "models/files/shards.h"
#include "models/layers/trainable.h"
#include "models/spec/model_config.h"
#include "models/spec/presets.h"
#include "models/spec/validate.h"
#include "schedules/generators/did_you_mean.h"
#include "tools/files.h"

namespace sluice {
namespace {

void Reshape(const ModelChoice& choice, int seq, DecoderConfig* gpt) {
  if (choice.layers != 0) gpt->layers = choice.layers;
  if (choice.dim != 0) gpt->dim = choice.dim;
  if (choice.heads != 0) gpt->heads = choice.heads;
  if (choice.vocab != 0) gpt->vocab = choice.vocab;
  if (choice.tied) gpt->tied_head = true;
  if (choice.norm) gpt->norm = *choice.norm;
  if (seq > 0) gpt->max_seq = seq;
}

absl::StatusOr<ModelSpec> ReadConfig(const ModelChoice& choice, const std::string& assume) {
  if (absl::Status status = RefuseShapeFlags(choice); !status.ok()) return status;
  const absl::StatusOr<std::string> json = ReadModelJson(choice);
  if (!json.ok()) return json.status();
  absl::StatusOr<ModelSpec> spec = ParseModelConfig(*json, ModelFile(choice), assume);
  if (spec.ok()) spec->name = choice.model;
  return spec;
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

absl::Status NoSuchPreset(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no preset model '", name,
                                          "', and no file or folder of that name; ",
                                          DidYouMean(name, PresetNames())));
}

absl::StatusOr<ModelSpec> ShapedPreset(const ModelChoice& choice, int seq) {
  absl::StatusOr<ModelSpec> spec = PresetModel(choice.model);
  if (!spec.ok()) return NoSuchPreset(choice.model);
  auto* decoder = std::get_if<DecoderConfig>(&spec->config);
  if (decoder == nullptr || !CheckTrainable(*spec).ok()) {
    if (absl::Status status = RefuseShapeFlags(choice); !status.ok()) return status;
    return spec;
  }
  Reshape(choice, seq, decoder);
  if (absl::Status status = ValidateSpec(*spec); !status.ok()) return status;
  // No other shape makes a model that trains one that does not.
  if (choice.norm && !CheckTrainable(*spec).ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--norm ", NormName(*choice.norm),
                                                   ": the norms of '", choice.model, "', a ",
                                                   decoder->family, ", are rms; leave it out"));
  }
  return spec;
}

absl::Status SetHeadRows(int rows, ModelSpec* spec) {
  if (rows == 0) return absl::OkStatus();
  auto* const decoder = std::get_if<DecoderConfig>(&spec->config);
  if (decoder == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("--head-rows has no effect on ", spec->name,
                                                   ", which has no vocabulary; leave it out"));
  }
  decoder->head_rows = rows;
  return absl::OkStatus();
}

}  // namespace

absl::Status RefuseShapeFlags(const ModelChoice& choice) {
  if (!choice.shapes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      kShapeFlags, " shape a preset of a decoder that trains; '", choice.model, "' is not one"));
}

bool NamesGraphFile(const ModelChoice& choice) { return absl::EndsWith(choice.model, ".txt"); }

bool NamesFile(const ModelChoice& choice) {
  return absl::EndsWith(choice.model, ".json") || absl::StrContains(choice.model, "/") ||
         (LeadsToFile(choice.model) && !PresetModel(choice.model).ok());
}

std::string ModelFile(const ModelChoice& choice) {
  if (!IsFolder(choice.model)) return choice.model;
  return (std::filesystem::path(choice.model) / "config.json").string();
}

std::string FolderOfWeights(const ModelChoice& choice) {
  if (!NamesFile(choice)) return "";
  const std::string folder = std::filesystem::path(ModelFile(choice)).parent_path().string();
  const std::string here = folder.empty() ? "." : folder;
  return HasModelWeights(here) ? here : "";
}

absl::StatusOr<std::string> ReadModelJson(const ModelChoice& choice) {
  absl::StatusOr<std::string> json = ReadWholeFile(ModelFile(choice), kMostJsonBytes);
  if (!absl::IsNotFound(json.status())) return json;
  return absl::NotFoundError(absl::StrCat(
      "'", choice.model, "'",
      IsFolder(choice.model) ? " has no config.json" : ": there is no such file or folder",
      "; expected a preset such as gpt2, or a Hugging Face folder or its config.json"));
}

absl::StatusOr<ModelSpec> ResolveModel(const ModelChoice& choice, int seq,
                                       const std::string& assume) {
  absl::StatusOr<ModelSpec> spec =
      NamesFile(choice) ? ReadConfig(choice, assume) : ShapedPreset(choice, seq);
  if (!spec.ok()) return spec;
  if (absl::Status status = SetHeadRows(choice.head_rows, &*spec); !status.ok()) return status;
  return spec;
}

absl::StatusOr<ModelSpec> ResolveTrainable(const ModelChoice& choice, int seq) {
  absl::StatusOr<ModelSpec> spec = ResolveModel(choice, seq);
  if (!spec.ok()) return spec;
  if (absl::Status status = CheckTrainable(*spec); !status.ok()) return status;
  return spec;
}

absl::Status CheckSeqFlag(const ModelSpec& spec, bool given) {
  if (!given || spec.mlp() == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--seq has no effect on ", spec.name,
                   ", whose samples are of pixels, not of tokens; leave it out"));
}

}  // namespace sluice
