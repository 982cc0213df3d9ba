#ifndef SLUICE_MODELS_SPEC_MODEL_CONFIG_H_
#define SLUICE_MODELS_SPEC_MODEL_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/model_spec.h"

namespace sluice {

// A config.json: Hugging Face's, of a model_type in families.cc (of gemma3 its text part), or an
// MLP's, {"model_type": "mlp", "widths": [784, 10]}. A model_type that is not known is read as the
// family `assume`, where that is not empty. The model is called `file`. NotFound lists the known
// families where this one is not among them; InvalidArgument names the file and the field that is
// missing, of the wrong type, out of range or not supported.
absl::StatusOr<ModelSpec> ParseModelConfig(absl::string_view json, absl::string_view file,
                                           absl::string_view assume = "");

// The reverse: a config.json that transformers loads as GPT2LMHeadModel; of a GPT with RMS norms,
// which transformers does not have, one that it refuses to load. Requires a model that
// CheckTrainable (models/layers/trainable.h) lets pass.
std::string FormatModelConfig(const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_MODEL_CONFIG_H_
