#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/model_spec.h"

namespace sluice {
namespace {

// Bounds so wide that no real model meets them, and so narrow that no count of parameters overflows
// 64 bits.
constexpr int64_t kMaxLayers = int64_t{1} << 16;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxIds = int64_t{1} << 24;  // vocabulary, positions

absl::Status CheckRange(const ModelSpec& spec, absl::string_view field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model '", spec.name, "': ", field, " is ", value,
                                                 ", expected ", low, " to ", high));
}

absl::Status ValidateGpt(const ModelSpec& spec, const GptConfig& config) {
  struct Bound {
    absl::string_view field;
    int64_t value, low, high;
  };
  const Bound bounds[] = {
      {"layers", config.layers, 1, kMaxLayers}, {"dim", config.dim, 1, kMaxWidth},
      {"heads", config.heads, 1, config.dim},   {"vocab", config.vocab, 2, kMaxIds},
      {"max_seq", config.max_seq, 1, kMaxIds},  {"hidden", config.hidden, 0, kMaxWidth},
  };
  for (const Bound& bound : bounds) {
    absl::Status status = CheckRange(spec, bound.field, bound.value, bound.low, bound.high);
    if (!status.ok()) return status;
  }
  if (config.dim % config.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model '", spec.name, "': dim ", config.dim,
                                                   " is not a multiple of heads ", config.heads));
  }
  if (!(config.norm_epsilon > 0) || !std::isfinite(config.norm_epsilon)) {
    return absl::InvalidArgumentError(absl::StrCat("model '", spec.name, "': norm_epsilon is ",
                                                   config.norm_epsilon,
                                                   ", expected a positive number"));
  }
  return absl::OkStatus();
}

absl::Status ValidateMlp(const ModelSpec& spec, const MlpConfig& config) {
  const std::vector<int>& widths = config.widths;
  if (widths.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("model '", spec.name, "': widths has ", widths.size(),
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
  return spec.gpt() != nullptr ? ValidateGpt(spec, *spec.gpt()) : ValidateMlp(spec, *spec.mlp());
}

}  // namespace sluice
