#include "models/spec/presets.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// Radford et al. 2019, table 2; heads and vocabulary as in the released weights.
DecoderConfig Gpt2(int64_t layers, int64_t dim, int64_t heads) {
  DecoderConfig config;
  config.layers = layers;
  config.dim = dim;
  config.heads = heads;
  config.vocab = 50257;
  config.max_seq = 1024;
  config.tied_head = true;
  return config;
}

DecoderConfig Grouped(const char* family, int64_t layers, int64_t dim, int64_t heads,
                      int64_t kv_heads, int64_t hidden, int64_t vocab, int64_t max_seq) {
  DecoderConfig config = LlamaDecoder(family);
  config.layers = layers;
  config.dim = dim;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.hidden = hidden;
  config.vocab = vocab;
  config.max_seq = max_seq;
  return config;
}

// Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3; the norms' epsilon, the longest
// sequence and the rotary positions as in the released config.json of version 3.1.
DecoderConfig Llama31(int64_t layers, int64_t dim, int64_t heads, int64_t hidden) {
  DecoderConfig config = Grouped("llama", layers, dim, heads, 8, hidden, 128256, 131072);
  config.norm_epsilon = 1e-5f;
  config.rope =
      Rope{.theta = 5e5, .scaling = RopeScaling::kLlama3, .factor = 8, .original_max_seq = 8192};
  return config;
}

// Qwen3 Technical Report, 2025, table 1; widths and rotary positions as in the released config.json.
DecoderConfig Qwen3Small() {
  DecoderConfig config = Grouped("qwen3", 28, 1024, 16, 8, 3072, 151936, 40960);
  config.head_dim = 128;
  config.norm_epsilon = 1e-6f;
  config.qk_norm = true;
  config.tied_head = true;
  config.rope.theta = 1e6;
  return config;
}

// Jiang et al., Mixtral of Experts, 2024, table 1.
DecoderConfig Mixtral() {
  DecoderConfig config = Grouped("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768);
  config.norm_epsilon = 1e-5f;
  config.rope.theta = 1e6;
  config.experts = Experts{.count = 8, .active = 2, .hidden = config.hidden};
  return config;
}

// DeepSeek-V3 Technical Report, 2024, section 4.2; rotary positions of section 4.3 as released.
DecoderConfig DeepSeekV3() {
  DecoderConfig config = Grouped("deepseek_v3", 61, 7168, 128, 128, 18432, 129280, 163840);
  config.rope = Rope{.scaling = RopeScaling::kYarn,
                     .factor = 40,
                     .mscale = 1,
                     .mscale_all_dim = 1,
                     .original_max_seq = 4096};
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

std::vector<ModelSpec> Presets() {
  return {
      {"char-gpt", DecoderConfig{}},
      {"gpt2", Gpt2(12, 768, 12)},
      {"gpt2-medium", Gpt2(24, 1024, 16)},
      {"gpt2-large", Gpt2(36, 1280, 20)},
      {"gpt2-xl", Gpt2(48, 1600, 25)},
      {"mlp", MlpConfig{}},
      {"llama-3.1-8b", Llama31(32, 4096, 32, 14336)},
      {"llama-3.1-70b", Llama31(80, 8192, 64, 28672)},
      {"llama-3.1-405b", Llama31(126, 16384, 128, 53248)},
      {"qwen3-0.6b", Qwen3Small()},
      {"mixtral-8x7b", Mixtral()},
      {"deepseek-v3", DeepSeekV3()},
  };
}

}  // namespace

absl::StatusOr<ModelSpec> PresetModel(absl::string_view name) {
  for (ModelSpec& preset : Presets()) {
    if (name == absl::string_view(preset.name)) return std::move(preset);
  }
  return absl::NotFoundError(absl::StrCat("no preset model '", name,
                                          "'; there are: ", absl::StrJoin(PresetNames(), ", ")));
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const ModelSpec& preset : Presets()) names.push_back(preset.name);
  return names;
}

}  // namespace sluice
