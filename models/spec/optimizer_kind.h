#ifndef SLUICE_MODELS_SPEC_OPTIMIZER_KIND_H_
#define SLUICE_MODELS_SPEC_OPTIMIZER_KIND_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

enum class OptimizerKind : uint8_t { kAdamW, kSgd };

constexpr const char* OptimizerName(OptimizerKind optimizer) {
  return optimizer == OptimizerKind::kSgd ? "sgd" : "adamw";
}
constexpr std::optional<OptimizerKind> ParseOptimizer(std::string_view name) {
  for (const OptimizerKind optimizer : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    if (name == OptimizerName(optimizer)) return optimizer;
  }
  return std::nullopt;
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_OPTIMIZER_KIND_H_
