#ifndef SLUICE_MODELS_LAYERS_TRAINABLE_H_
#define SLUICE_MODELS_LAYERS_TRAINABLE_H_

#include <vector>

#include "absl/status/status.h"
#include "models/layers/layer.h"
#include "models/spec/adaptation.h"
#include "models/spec/model_spec.h"

namespace sluice {

// Whether there are layers for all of the model, so that it trains; nothing else decides that.
// InvalidArgument names the first thing of a decoder that no layer computes, and what the layers
// compute in its place; or as ValidateSpec.
absl::Status CheckTrainable(const ModelSpec& spec);

// InvalidArgument where the model cannot be adapted so: an MLP with an adapter, or only one of an
// embedding's two tables frozen.
absl::Status CheckAdaptation(const ModelSpec& spec, const Adaptation& adaptation);
// `layers` are all of a model's, made with `adaptation`: whether every pattern and every target
// names something of them, and something is left to train. InvalidArgument says which does not.
absl::Status CheckTrained(const Adaptation& adaptation, const std::vector<LayerDecl>& layers);
// The same of layers that are made for it, of a model that computes in `dtype`. Other errors are
// MakeLayer's.
absl::Status CheckTrained(const Adaptation& adaptation, const ModelSpec& spec, DType dtype);

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_TRAINABLE_H_
