#include "tools/train/model_choice.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/files.h"

namespace sluice {
namespace {

void Reshape(const ModelChoice& choice, int seq, GptConfig* gpt) {
  if (choice.layers != 0) gpt->layers = choice.layers;
  if (choice.dim != 0) gpt->dim = choice.dim;
  if (choice.heads != 0) gpt->heads = choice.heads;
  if (choice.vocab != 0) gpt->vocab = choice.vocab;
  if (choice.tied) gpt->tied_head = true;
  if (choice.norm) gpt->norm = *choice.norm;
  if (seq > 0) gpt->max_seq = seq;
}

absl::StatusOr<ModelSpec> ReadConfig(const ModelChoice& choice) {
  if (absl::Status status = RefuseShapeFlags(choice); !status.ok()) return status;
  absl::StatusOr<std::string> json = ReadFile(choice.model);
  if (!json.ok()) return json.status();
  return ParseHuggingFaceConfig(*json, choice.model);
}

}  // namespace

absl::Status RefuseShapeFlags(const ModelChoice& choice) {
  if (!choice.shapes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kShapeFlags, " shape a GPT preset; '", choice.model, "' is not one"));
}

bool NamesGraphFile(const ModelChoice& choice) { return absl::EndsWith(choice.model, ".txt"); }

absl::StatusOr<ModelSpec> ResolveModel(const ModelChoice& choice, int seq) {
  const bool file = absl::EndsWith(choice.model, ".json") || absl::StrContains(choice.model, "/");
  absl::StatusOr<ModelSpec> spec = file ? ReadConfig(choice) : PresetModel(choice.model);
  if (!spec.ok()) return spec;
  if (auto* gpt = std::get_if<GptConfig>(&spec->config); gpt != nullptr && !file) {
    Reshape(choice, seq, gpt);
  } else if (absl::Status status = RefuseShapeFlags(choice); !status.ok()) {
    return status;
  }
  if (absl::Status status = ValidateSpec(*spec); !status.ok()) return status;
  return spec;
}

}  // namespace sluice
