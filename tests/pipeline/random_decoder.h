#ifndef SLUICE_TESTS_PIPELINE_RANDOM_DECODER_H_
#define SLUICE_TESTS_PIPELINE_RANDOM_DECODER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "models/spec/bfloat16.h"
#include "models/spec/model_config.h"
#include "tests/models/spec/random_configs.h"
#include "tests/models/twins/model_runner.h"

namespace sluice {

inline constexpr int64_t kRandomDecoderSeq = 90;

// A random model of the family, made small, whose windows are shorter than the prompts.
inline ModelSpec RandomDecoder(const std::string& family, int seed) {
  nlohmann::json json = RandomConfig(family, static_cast<uint32_t>(seed));
  if (json.contains("use_sliding_window")) {  // Qwen's windows are rare
    json.update({{"use_sliding_window", seed % 2 == 1}, {"max_window_layers", 1}});
    json.erase("layer_types");
  }
  absl::StatusOr<ModelSpec> spec = ParseModelConfig(json.dump(), "config.json");
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto& config = std::get<DecoderConfig>(spec->config);
  config.max_seq = kRandomDecoderSeq;
  config.layers = std::min<int64_t>(config.layers, 3);
  if (!config.global_blocks.empty())
    config.global_blocks.resize(static_cast<size_t>(config.layers));
  if (!config.learned_positions) {
    config.head_dim = std::min<int64_t>(config.head_width(), 2 + 2 * (seed % 5));
    config.dim = 17 + seed;
  }
  if (config.window > 0) config.window = 3 + seed % 6;
  // What follows from the sizes is what a folder of these sizes has.
  spec = ParseModelConfig(FormatModelConfig(*spec), "config.json");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

// Every parameter has random values, norms and biases too, of a size with which logits differ much.
inline void FillParameters(ModelRunner& runner) {
  for (LayerRunner& layer : runner.layers()) {
    for (size_t p = 0; p < layer.parameters().size(); ++p) {
      const ParameterDecl& decl = layer.decl().parameters[p];
      const std::string& name = decl.tied_to.empty() ? decl.name : decl.tied_to;
      std::seed_seq seed(name.begin(), name.end());
      std::mt19937 random(seed);
      const bool matrix = decl.init == ParameterDecl::Init::kNormal;
      const float middle = decl.init == ParameterDecl::Init::kOnes ? 1 : 0;
      const float width = matrix ? 2 / std::sqrt(static_cast<float>(decl.shape.back())) : 0.3f;
      std::uniform_real_distribution<float> value(middle - width, middle + width);
      float* const values = layer.parameters()[p].floats();
      std::generate_n(values, ElementCount(decl.shape),
                      [&] { return FromBFloat16(ToBFloat16(value(random))); });
    }
  }
  runner.Pack();
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_RANDOM_DECODER_H_
