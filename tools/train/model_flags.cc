#include "tools/train/model_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/files.h"

namespace sluice {
namespace {

void Reshape(const ModelFlags& flags, int seq, GptConfig* gpt) {
  if (flags.layers != 0) gpt->layers = flags.layers;
  if (flags.dim != 0) gpt->dim = flags.dim;
  if (flags.heads != 0) gpt->heads = flags.heads;
  if (flags.vocab != 0) gpt->vocab = flags.vocab;
  if (flags.tied) gpt->tied_head = true;
  if (const std::optional<NormKind> norm = ParseNorm(flags.norm)) gpt->norm = *norm;
  if (seq > 0) gpt->max_seq = seq;
}

absl::StatusOr<ModelSpec> ReadConfig(const ModelFlags& flags) {
  if (absl::Status status = RefuseShapeFlags(flags); !status.ok()) return status;
  absl::StatusOr<std::string> json = ReadFile(flags.model);
  if (!json.ok()) return json.status();
  return ParseHuggingFaceConfig(*json, flags.model);
}

}  // namespace

absl::Status RefuseShapeFlags(const ModelFlags& flags) {
  if (!flags.shapes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kShapeFlags, " shape a GPT preset; '", flags.model, "' is not one"));
}

bool NamesGraphFile(const ModelFlags& flags) { return absl::EndsWith(flags.model, ".txt"); }

void AddShapeFlags(CLI::App& command, ModelFlags* flags) {
  command.add_option("--layers", flags->layers, "Transformer blocks (presets)")
      ->check(CLI::PositiveNumber);
  command.add_option("--dim", flags->dim, "Model width (presets)")->check(CLI::PositiveNumber);
  command.add_option("--heads", flags->heads, "Attention heads; --dim is a multiple (presets)")
      ->check(CLI::PositiveNumber);
  command.add_option("--vocab", flags->vocab, "Vocabulary size (presets)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--tied", flags->tied, "Head and token embedding share their weights (presets)");
  command.add_option("--norm", flags->norm, "layer, or rms: without mean and bias (presets)")
      ->check(CLI::IsMember({NormName(NormKind::kLayer), NormName(NormKind::kRms)}));
}

absl::StatusOr<ModelSpec> ResolveModel(const ModelFlags& flags, int seq) {
  const bool file = absl::EndsWith(flags.model, ".json") || absl::StrContains(flags.model, "/");
  absl::StatusOr<ModelSpec> spec = file ? ReadConfig(flags) : PresetModel(flags.model);
  if (!spec.ok()) return spec;
  if (auto* gpt = std::get_if<GptConfig>(&spec->config); gpt != nullptr && !file) {
    Reshape(flags, seq, gpt);
  } else if (absl::Status status = RefuseShapeFlags(flags); !status.ok()) {
    return status;
  }
  if (absl::Status status = ValidateSpec(*spec); !status.ok()) return status;
  return spec;
}

}  // namespace sluice
