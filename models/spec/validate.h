#ifndef SLUICE_MODELS_SPEC_VALIDATE_H_
#define SLUICE_MODELS_SPEC_VALIDATE_H_

#include "absl/status/status.h"
#include "models/spec/model_spec.h"

namespace sluice {

// InvalidArgument names the model and the field where the numbers make no sense together (0 heads,
// dim no multiple of heads, ...) or are so large that counts of parameters would overflow. Whether
// sluice trains the model is another question: models/layers/trainable.h.
absl::Status ValidateSpec(const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_VALIDATE_H_
