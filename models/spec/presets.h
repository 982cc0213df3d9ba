#ifndef SLUICE_MODELS_SPEC_PRESETS_H_
#define SLUICE_MODELS_SPEC_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/model_spec.h"

namespace sluice {

// A model by its name. NotFound lists the names that there are.
absl::StatusOr<ModelSpec> PresetModel(absl::string_view name);

// "char-gpt", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "mlp", "llama-3.1-8b", ...
std::vector<std::string> PresetNames();

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_PRESETS_H_
