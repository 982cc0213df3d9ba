#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/decoder.h"

namespace sluice {
namespace {

struct Preset {
  const char* name;
  DecoderConfig config;
};

DecoderConfig Grouped(const char* family, int64_t layers, int64_t dim, int64_t heads,
                      int64_t kv_heads, int64_t hidden, int64_t vocab, int64_t max_seq) {
  DecoderConfig config;
  config.family = family;
  config.layers = layers;
  config.dim = dim;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.head_dim = dim / heads;
  config.hidden = hidden;
  config.vocab = vocab;
  config.max_seq = max_seq;
  return config;
}

// Jiang et al., Mixtral of Experts, 2024, table 1.
DecoderConfig Mixtral() {
  DecoderConfig config = Grouped("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768);
  config.experts = Experts{.count = 8, .active = 2, .hidden = config.hidden};
  return config;
}

// DeepSeek-V3 Technical Report, 2024, section 4.2.
DecoderConfig DeepSeekV3() {
  DecoderConfig config = Grouped("deepseek_v3", 61, 7168, 128, 128, 18432, 129280, 163840);
  config.latent = LatentAttention{.query_rank = 1536,
                                  .key_value_rank = 512,
                                  .plain_dim = 128,
                                  .rotary_dim = 64,
                                  .value_dim = 128};
  config.experts =
      Experts{.count = 256, .active = 8, .hidden = 2048, .shared_hidden = 2048, .first_block = 3};
  config.predict_ahead = 1;
  return config;
}

// Llama: Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3.
std::vector<Preset> Presets() {
  return {
      {"llama-3.1-8b", Grouped("llama", 32, 4096, 32, 8, 14336, 128256, 131072)},
      {"llama-3.1-70b", Grouped("llama", 80, 8192, 64, 8, 28672, 128256, 131072)},
      {"llama-3.1-405b", Grouped("llama", 126, 16384, 128, 8, 53248, 128256, 131072)},
      {"mixtral-8x7b", Mixtral()},
      {"deepseek-v3", DeepSeekV3()},
  };
}

}  // namespace

absl::StatusOr<DecoderConfig> PresetDecoder(absl::string_view name) {
  const std::vector<Preset> presets = Presets();
  for (const Preset& preset : presets) {
    if (name == preset.name) return preset.config;
  }
  return absl::NotFoundError(absl::StrCat("no preset model '", name, "' to plan for; there are: ",
                                          absl::StrJoin(DecoderPresets(), ", ")));
}

std::vector<std::string> DecoderPresets() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.emplace_back(preset.name);
  return names;
}

}  // namespace sluice
