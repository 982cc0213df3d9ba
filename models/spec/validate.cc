#include "models/spec/validate.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {
namespace {

// Bounds so wide that no real model meets them, and so narrow that no count of parameters overflows
// 64 bits.
constexpr int64_t kMaxLayers = int64_t{1} << 16;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxIds = int64_t{1} << 24;  // vocabulary, positions
constexpr double kSmallest = 1e-6, kLargest = 1e6;

absl::Status CheckRange(const ModelSpec& spec, absl::string_view field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model '", spec.name, "': ", field, " is ", value,
                                                 ", expected ", low, " to ", high));
}

absl::Status Bad(const ModelSpec& spec, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("model '", spec.name, "': ", what));
}

// How heads share out what they share.
absl::Status CheckHeads(const ModelSpec& spec, const DecoderConfig& config) {
  if (config.head_dim == 0 && config.dim % config.heads != 0) {
    return Bad(spec,
               absl::StrCat("dim ", config.dim, " is not a multiple of heads ", config.heads));
  }
  if (config.heads % config.key_value_heads() != 0) {
    return Bad(spec, absl::StrCat("heads ", config.heads, " is not a multiple of kv_heads ",
                                  config.kv_heads));
  }
  return absl::OkStatus();
}

struct NumberBound {
  const char* field;
  double value, low, high;
};

absl::Status CheckNumbers(const ModelSpec& spec, absl::string_view of,
                          absl::Span<const NumberBound> bounds) {
  for (const auto& [field, value, low, high] : bounds) {
    if (value >= low && value <= high) continue;  // not of what is not a number
    return Bad(spec, absl::StrCat(of, field, " is ", value, ", expected a number from ", low,
                                  " to ", high));
  }
  return absl::OkStatus();
}

absl::Status CheckScales(const ModelSpec& spec, const DecoderConfig& config) {
  return CheckNumbers(spec, "",
                      {{"embedding_scale", config.embedding_scale, kSmallest, kLargest},
                       {"final_soft_cap", config.final_soft_cap, 0, kLargest},
                       {"attention_scale", config.attention_scale, 0, kLargest},
                       {"attention_soft_cap", config.attention_soft_cap, 0, kLargest},
                       {"initializer_range", config.initializer_range, 0, 1}});
}

absl::Status CheckRope(const ModelSpec& spec, absl::string_view of, const Rope& rope) {
  absl::Status status =
      CheckNumbers(spec, of,
                   {{"theta", rope.theta, 2, 1e18},
                    {"factor", rope.factor, 1, kLargest},
                    {"low_frequency_factor", rope.low_frequency_factor, kSmallest, kLargest},
                    {"beta_fast", rope.beta_fast, rope.beta_slow, kLargest},
                    {"beta_slow", rope.beta_slow, kSmallest, kLargest},
                    {"attention_factor", rope.attention_factor, 0, kLargest},
                    {"mscale", rope.mscale, 0, kLargest},
                    {"mscale_all_dim", rope.mscale_all_dim, 0, kLargest}});
  if (!status.ok()) return status;
  if (!(rope.high_frequency_factor > rope.low_frequency_factor &&
        rope.high_frequency_factor <= kLargest)) {
    return Bad(spec, absl::StrCat(of, "high_frequency_factor is ", rope.high_frequency_factor,
                                  ", expected more than low_frequency_factor ",
                                  rope.low_frequency_factor));
  }
  return CheckRange(spec, absl::StrCat(of, "original_max_seq"), rope.original_max_seq, 0, kMaxIds);
}

// Pairs of values turn together.
absl::Status CheckRotation(const ModelSpec& spec, const DecoderConfig& config) {
  if (config.learned_positions) return absl::OkStatus();
  const int64_t width = config.latent ? config.latent->rotary_dim : config.head_width();
  if (width % 2 != 0) {
    return Bad(spec, absl::StrCat("the width of a head is ", width,
                                  ", expected an even number with rotary positions"));
  }
  absl::Status status = CheckRope(spec, "rope.", config.rope);
  if (status.ok() && config.local_rope) status = CheckRope(spec, "local_rope.", *config.local_rope);
  return status;
}

absl::Status ValidateDecoder(const ModelSpec& spec, const DecoderConfig& config) {
  struct Bound {
    absl::string_view field;
    int64_t value, low, high;
  };
  const Bound bounds[] = {
      {"layers", config.layers, 1, kMaxLayers},
      {"dim", config.dim, 1, kMaxWidth},
      {"heads", config.heads, 1, config.head_dim == 0 ? config.dim : kMaxWidth},
      {"kv_heads", config.kv_heads, 0, config.heads},
      {"head_dim", config.head_dim, 0, kMaxWidth},
      {"vocab", config.vocab, 2, kMaxIds},
      {"max_seq", config.max_seq, 1, kMaxIds},
      {"hidden", config.hidden, 0, kMaxWidth},
      {"head_rows", config.head_rows, 0, kMaxIds},
      {"predict_ahead", config.predict_ahead, 0, kMaxLayers},
      {"norms", config.norms, 2, 4},
      {"window", config.window, 0, kMaxIds},
      {"the number of global_blocks", static_cast<int64_t>(config.global_blocks.size()),
       config.global_blocks.empty() ? 0 : config.layers, config.layers},
  };
  for (const Bound& bound : bounds) {
    absl::Status status = CheckRange(spec, bound.field, bound.value, bound.low, bound.high);
    if (!status.ok()) return status;
  }
  if (absl::Status status = CheckHeads(spec, config); !status.ok()) return status;
  if (!(config.norm_epsilon > 0) || !std::isfinite(config.norm_epsilon)) {
    return Bad(spec, absl::StrCat("norm_epsilon is ", config.norm_epsilon,
                                  ", expected a positive number"));
  }
  if (absl::Status status = CheckScales(spec, config); !status.ok()) return status;
  return CheckRotation(spec, config);
}

absl::Status ValidateMlp(const ModelSpec& spec, const MlpConfig& config) {
  const std::vector<int>& widths = config.widths;
  if (widths.size() < 2) {
    return Bad(spec, absl::StrCat("widths has ", widths.size(),
                                  " entries, expected at least 2: input, hidden..., classes"));
  }
  absl::Status status =
      CheckRange(spec, "the number of widths", static_cast<int64_t>(widths.size()), 2, kMaxLayers);
  for (size_t i = 0; status.ok() && i < widths.size(); ++i) {
    status = CheckRange(spec, absl::StrCat("widths[", i, "]"), widths[i], 1, kMaxWidth);
  }
  return status;
}

}  // namespace

absl::Status ValidateSpec(const ModelSpec& spec) {
  return spec.decoder() != nullptr ? ValidateDecoder(spec, *spec.decoder())
                                   : ValidateMlp(spec, *spec.mlp());
}

}  // namespace sluice
