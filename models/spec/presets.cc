#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/model_spec.h"

namespace sluice {
namespace {

// Radford et al. 2019, table 2; heads and vocabulary as in the released weights.
GptConfig Gpt2(int layers, int dim, int heads) {
  GptConfig config;
  config.layers = layers;
  config.dim = dim;
  config.heads = heads;
  config.vocab = 50257;
  config.max_seq = 1024;
  config.tied_head = true;
  return config;
}

std::vector<ModelSpec> Presets() {
  return {
      {"char-gpt", GptConfig{}},           {"gpt2", Gpt2(12, 768, 12)},
      {"gpt2-medium", Gpt2(24, 1024, 16)}, {"gpt2-large", Gpt2(36, 1280, 20)},
      {"gpt2-xl", Gpt2(48, 1600, 25)},     {"mlp", MlpConfig{}},
  };
}

}  // namespace

absl::StatusOr<ModelSpec> PresetModel(absl::string_view name) {
  const std::vector<ModelSpec> presets = Presets();
  for (const ModelSpec& preset : presets) {
    if (name == absl::string_view(preset.name)) return preset;
  }
  const auto append_name = [](std::string* out, const ModelSpec& preset) {
    out->append(preset.name);
  };
  return absl::NotFoundError(absl::StrCat(
      "no preset model '", name, "'; there are: ", absl::StrJoin(presets, ", ", append_name)));
}

}  // namespace sluice
