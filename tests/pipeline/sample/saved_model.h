#ifndef SLUICE_TESTS_PIPELINE_SAMPLE_SAVED_MODEL_H_
#define SLUICE_TESTS_PIPELINE_SAMPLE_SAVED_MODEL_H_

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "models/spec/model_config.h"
#include "tests/models/files/write_safetensors.h"
#include "tests/models/twins/model_runner.h"

namespace sluice {

// Writes the model of `runner`, with its parameters, into `folder` as Hugging Face does.
inline void SaveModel(const ModelSpec& spec, ModelRunner& runner, const std::string& folder) {
  std::vector<TensorSource> tensors;
  for (LayerRunner& layer : runner.layers()) {
    for (size_t p = 0; p < layer.parameters().size(); ++p) {
      const ParameterDecl& decl = layer.decl().parameters[p];
      if (!decl.tied_to.empty()) continue;
      tensors.push_back({decl.name, decl.shape, layer.parameters()[p].floats()});
    }
  }
  ASSERT_TRUE(WriteSafetensors(folder + "/model.safetensors", tensors, {}).ok());
  std::ofstream(folder + "/config.json") << FormatModelConfig(spec);
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_SAMPLE_SAVED_MODEL_H_
