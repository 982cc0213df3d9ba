#ifndef SLUICE_TESTS_MODELS_LAYERS_TEST_MODELS_H_
#define SLUICE_TESTS_MODELS_LAYERS_TEST_MODELS_H_

#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "models/layers/layer.h"
#include "models/spec/adaptation.h"
#include "models/spec/decoder.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "tests/models/twins/reference_kernels.h"

namespace sluice {

// Small models in which no two sizes are equal, so that a mixed-up dimension cannot hide.
struct TestModel {
  std::string name;
  ModelSpec spec;
  BatchShape batch;
  Adaptation adaptation = {};

  friend std::ostream& operator<<(std::ostream& out, const TestModel& model) {
    return out << model.name;
  }
};

inline DecoderConfig TinyGpt(bool tied_head, NormKind norm = NormKind::kLayer) {
  return {.layers = 2,
          .dim = 12,
          .heads = 3,
          .vocab = 11,
          .max_seq = 7,
          .hidden = 20,
          .tied_head = tied_head,
          .norm = norm};
}

// Llama's, with grouped queries, and heads that together are wider than the model.
inline DecoderConfig TinyLlama(const std::string& family) {
  DecoderConfig config = LlamaDecoder(family);
  config.layers = 2;
  config.dim = 10;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 6;
  config.vocab = 11;
  config.max_seq = 7;
  config.hidden = 14;
  return config;
}

// Biases wherever a family has them, and linear positions.
inline DecoderConfig TinyBiasedLlama() {
  DecoderConfig config = TinyLlama("llama");
  config.kv_heads = 4;
  config.head_dim = 0;
  config.dim = 8;
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  config.rope = {.scaling = RopeScaling::kLinear, .factor = 2};
  return config;
}

inline DecoderConfig TinyLlama3() {
  DecoderConfig config = TinyLlama("llama");
  config.rope = {.theta = 100, .scaling = RopeScaling::kLlama3, .factor = 8, .original_max_seq = 5};
  return config;
}

// A window in the second block alone.
inline DecoderConfig TinyQwen2() {
  DecoderConfig config = TinyLlama("qwen2");
  config.qkv_bias = true;
  config.tied_head = true;
  config.window = 2;
  config.global_blocks = {true, false};
  config.rope = {.theta = 50, .scaling = RopeScaling::kYarn, .factor = 4, .original_max_seq = 4};
  return config;
}

inline DecoderConfig TinyQwen3() {
  DecoderConfig config = TinyLlama("qwen3");
  config.qk_norm = true;
  return config;
}

inline DecoderConfig TinyGemma(const std::string& family) {
  DecoderConfig config = TinyLlama(family);
  config.mlp = MlpKind::kGeGlu;
  config.norm_offset = true;
  config.embedding_scale = 3.25f;
  config.tied_head = true;
  return config;
}

inline DecoderConfig TinyGemma2() {
  DecoderConfig config = TinyGemma("gemma2");
  config.kv_heads = 1;
  config.norms = 4;
  config.attention_scale = 0.3f;
  config.attention_soft_cap = 1.5f;
  config.window = 3;
  config.global_blocks = {false, true};
  return config;
}

inline DecoderConfig TinyGemma3() {
  DecoderConfig config = TinyGemma("gemma3_text");
  config.norms = 4;
  config.qk_norm = true;
  config.window = 3;
  config.global_blocks = {false, true};
  config.rope = {.theta = 1e6, .scaling = RopeScaling::kLinear, .factor = 8};
  config.local_rope = Rope{};
  return config;
}

inline std::vector<TestModel> TestModels() {
  return {
      {"gpt", {"gpt", TinyGpt(false)}, {2, 5}},
      {"gpt_tied", {"gpt_tied", TinyGpt(true)}, {2, 5}},
      {"gpt_rms", {"gpt_rms", TinyGpt(false, NormKind::kRms)}, {2, 5}},
      {"llama", {"llama", TinyLlama3()}, {2, 5}},
      {"llama_biased", {"llama_biased", TinyBiasedLlama()}, {2, 5}},
      {"qwen2", {"qwen2", TinyQwen2()}, {2, 5}},
      {"qwen3", {"qwen3", TinyQwen3()}, {2, 5}},
      {"gemma", {"gemma", TinyGemma("gemma")}, {1, 5}},
      {"gemma2", {"gemma2", TinyGemma2()}, {2, 5}},
      {"gemma3", {"gemma3", TinyGemma3()}, {2, 5}},
      {"mlp", {"mlp", MlpConfig{{13, 9, 7, 5}}}, {6, 1}},
      {"one_matrix", {"one_matrix", MlpConfig{{8, 3}}}, {4, 1}},
  };
}

// Models with adapters, or with a part that is frozen.
inline std::vector<TestModel> AdaptedModels() {
  const Adaptation all = {.lora = Lora{.rank = 3, .alpha = 1.5}};
  const Adaptation some = {
      .lora =
          Lora{.rank = 2, .alpha = 3, .rank_stabilised = true, .targets = {"q_proj", "down_proj"}}};
  const Adaptation dropout = {.lora = Lora{.rank = 3, .alpha = 1.5, .dropout = 0.3}};
  const Adaptation frozen = {.freeze = {"*.0.*", "*ln_1.weight", "*input_layernorm*", "*.c_fc.bias",
                                        "*q_proj.weight", "lm_head*", "model.embed_tokens*"}};
  return {
      {"gpt_lora", {"gpt", TinyGpt(false)}, {2, 5}, all},
      {"gpt_tied_lora", {"gpt", TinyGpt(true)}, {2, 5}, all},
      {"gpt_frozen", {"gpt", TinyGpt(false)}, {2, 5}, frozen},
      {"llama_lora", {"llama", TinyLlama3()}, {2, 5}, all},
      {"llama_biased_some", {"llama_biased", TinyBiasedLlama()}, {2, 5}, some},
      {"qwen3_lora", {"qwen3", TinyQwen3()}, {2, 5}, all},
      {"qwen2_frozen", {"qwen2", TinyQwen2()}, {2, 5}, frozen},
      {"gpt_dropout", {"gpt", TinyGpt(true)}, {2, 5}, dropout},
      {"qwen3_dropout", {"qwen3", TinyQwen3()}, {2, 5}, dropout},
      {"gemma2_lora", {"gemma2", TinyGemma2()}, {2, 5}, all},
  };
}

// A model, computed in one type by one device's kernels.
struct TestCase {
  TestModel model;
  DType dtype = DType::kFloat32;
  const Kernels* kernels = nullptr;

  std::string name() const { return model.name + "_" + DTypeName(dtype) + "_" + kernels->device; }
  friend std::ostream& operator<<(std::ostream& out, const TestCase& test) {
    return out << test.name();
  }
};

inline std::vector<TestCase> TestCases(const std::vector<TestModel>& models,
                                       const std::vector<const Kernels*>& devices) {
  std::vector<TestCase> cases;
  for (const TestModel& model : models) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const Kernels* kernels : devices) cases.push_back({model, dtype, kernels});
    }
  }
  return cases;
}

// Far from initialisation's small, symmetric values, so that every path carries a gradient worth
// comparing. An MLP's biases put its units clearly on either side of the ReLU, in turn: a finite
// difference must not step over the kink.
inline void LivelyParameter(const ParameterDecl& decl, void* values) {
  const std::string& name = decl.tied_to.empty() ? decl.name : decl.tied_to;
  const bool mlp = name.starts_with("layers.");
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 random(seed);
  const float center = decl.init == ParameterDecl::Init::kOnes ? 1.0f : 0.0f;
  std::normal_distribution<float> normal(center, mlp ? 0.1f : 0.35f);
  for (int64_t i = 0; i < ElementCount(decl.shape); ++i) {
    float value = normal(random);
    if (mlp && name.ends_with("bias")) value += i % 2 == 0 ? 1.5f : -1.5f;
    reference::Set(decl.dtype, values, i, value);
  }
}

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_LAYERS_TEST_MODELS_H_
