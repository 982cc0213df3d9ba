#include "models/spec/decoder.h"

#include <algorithm>

namespace sluice {

const char* NormName(NormKind kind) { return kind == NormKind::kLayer ? "layer" : "rms"; }

std::optional<NormKind> ParseNorm(absl::string_view name) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    if (name == NormName(kind)) return kind;
  }
  return std::nullopt;
}

const char* MlpName(MlpKind kind) {
  switch (kind) {
    case MlpKind::kGelu:
      return "GELU";
    case MlpKind::kSwiGlu:
      return "SwiGLU";
    case MlpKind::kGeGlu:
      return "GeGLU";
  }
  return "";
}

HeadBlocks DecoderConfig::head_blocks(int64_t rows, const HeadLimits& limits) const {
  if (head_rows == 0) return HeadBlocksOf(rows, vocab, limits);
  constexpr int64_t kUnit = 16;  // a block's rows are a multiple of it
  const int64_t most = (head_rows + kUnit - 1) / kUnit * kUnit;
  return HeadBlocksOf(rows, vocab, {.whole = 0, .block = most * vocab});
}

bool DecoderConfig::HasExperts(int64_t block) const {
  return experts && block >= experts->first_block &&
         (block - experts->first_block) % experts->every == 0;
}

bool DecoderConfig::HasWindow(int64_t block) const {
  const auto index = static_cast<size_t>(block);
  return window > 0 && (index >= global_blocks.size() || !global_blocks[index]);
}

int64_t DecoderConfig::Reach(int64_t block, int64_t seq) const {
  return HasWindow(block) ? std::min(seq, window) : seq;
}

DecoderConfig LlamaDecoder(absl::string_view family) {
  DecoderConfig config;
  config.family = std::string(family);
  config.norm = NormKind::kRms;
  config.norm_epsilon = 1e-6f;  // transformers' default
  config.learned_positions = false;
  config.mlp = MlpKind::kSwiGlu;
  config.qkv_bias = config.output_bias = config.mlp_bias = false;
  return config;
}

}  // namespace sluice
