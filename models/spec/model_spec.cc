#include "models/spec/model_spec.h"

namespace sluice {

const char* NormName(NormKind kind) { return kind == NormKind::kLayer ? "layer" : "rms"; }

std::optional<NormKind> ParseNorm(absl::string_view name) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    if (name == NormName(kind)) return kind;
  }
  return std::nullopt;
}

int ModelSpec::layer_count() const {
  if (gpt() != nullptr) return gpt()->layers + 2;
  return static_cast<int>(mlp()->widths.size()) - 1;
}

}  // namespace sluice
