#ifndef SLUICE_MODELS_SPEC_TARGETS_H_
#define SLUICE_MODELS_SPEC_TARGETS_H_

#include <cstdint>

namespace sluice {

// The target of a row that counts neither in the loss nor in a gradient.
inline constexpr int32_t kNoTarget = -1;

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_TARGETS_H_
