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

bool SameArchitecture(const ModelSpec& a, const ModelSpec& b) {
  ModelSpec alike = b;
  if (a.decoder() != nullptr && b.decoder() != nullptr)
    std::get<DecoderConfig>(alike.config).head_rows = a.decoder()->head_rows;
  return a.config == alike.config;
}

}  // namespace sluice
