#include "tools/model_flags.h"

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
  if (flags.layers == 0 && flags.dim == 0 && flags.heads == 0 && flags.vocab == 0 && !flags.tied) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--layers, --dim, --heads, --vocab and --tied shape a GPT preset; '",
                   flags.model, "' is not one"));
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
