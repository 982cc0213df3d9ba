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

// The reverse: a config.json that transformers loads as the same model, its numbers in fp32; of a
// GPT with RMS norms, which transformers does not have, one that it refuses to load. What is
// written reads back as `spec.config`. Requires a model that CheckTrainable
// (models/layers/trainable.h) lets pass and that has what its family has, as a preset or what was
// read from a file does.
std::string FormatModelConfig(const ModelSpec& spec);
// Whether FormatModelConfig() knows the fields of its family: not of those that are only planned
// for.
bool CanFormat(const ModelSpec& spec);

// The config.json of a model that was read from `json` and is saved with weights in fp32: every
// field of `json` in its place, those that nothing here reads too, but for the type of the numbers
// and for what `spec` has otherwise (a longer sequence, say). `json` itself where nothing changes.
// InvalidArgument where `json` cannot be read, or describes a model that fields of its own cannot
// make `spec`.
absl::StatusOr<std::string> PatchModelConfig(absl::string_view json, absl::string_view file,
                                             const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_MODEL_CONFIG_H_
