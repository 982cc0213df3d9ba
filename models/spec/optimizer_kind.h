#ifndef SLUICE_MODELS_SPEC_OPTIMIZER_KIND_H_
#define SLUICE_MODELS_SPEC_OPTIMIZER_KIND_H_

#include <cstdint>

namespace sluice {

enum class OptimizerKind : uint8_t { kAdamW, kSgd };

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_OPTIMIZER_KIND_H_
