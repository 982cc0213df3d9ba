#include "models/spec/model_spec.h"

namespace sluice {

int ModelSpec::layer_count() const {
  if (const DecoderConfig* model = decoder()) {
    return static_cast<int>(model->layers + model->predict_ahead) + 2;
  }
  return static_cast<int>(mlp()->widths.size()) - 1;
}

int ModelSpec::classes() const {
  return decoder() != nullptr ? static_cast<int>(decoder()->vocab) : mlp()->widths.back();
}

}  // namespace sluice
