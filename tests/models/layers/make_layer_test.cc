#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "models/layers/layer.h"
#include "models/spec/costs/describe_layers.h"
#include "models/spec/presets.h"
#include "tests/models/layers/test_models.h"
#include "tests/models/twins/reference_kernels.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Layer> Make(const ModelSpec& spec, int index, const BatchShape& batch,
                            DType dtype = DType::kFloat32) {
  return MakeLayer(spec, index, batch, dtype, ReferenceKernels()).value();
}

LayerDecl Declare(const ModelSpec& spec, int index, const BatchShape& batch,
                  DType dtype = DType::kFloat32) {
  return Make(spec, index, batch, dtype)->decl();
}

std::map<std::string, ParameterDecl> Parameters(const ModelSpec& spec) {
  std::map<std::string, ParameterDecl> parameters;
  for (int index = 0; index < spec.layer_count(); ++index) {
    const LayerDecl layer = Declare(spec, index, {1, 1});
    for (const ParameterDecl& decl : layer.parameters) {
      EXPECT_TRUE(parameters.emplace(decl.name, decl).second) << decl.name << " is there twice";
    }
  }
  return parameters;
}

std::map<std::string, Shape> Shapes(const ModelSpec& spec) {
  std::map<std::string, Shape> shapes;
  for (const auto& [name, decl] : Parameters(spec)) shapes[name] = decl.shape;
  return shapes;
}

TEST(MakeLayerTest, DeclaresAsManyParametersAsTheSpecCounts) {
  std::vector<ModelSpec> specs = {*PresetModel("gpt2"), *PresetModel("gpt2-xl"),
                                  *PresetModel("char-gpt"), *PresetModel("mlp"),
                                  *PresetModel("llama-3.1-8b")};
  for (const TestModel& model : TestModels()) specs.push_back(model.spec);
  for (const ModelSpec& spec : specs) {
    const std::vector<LayerSpec> layers = DescribeLayers(spec, {1, 1});
    ASSERT_EQ(static_cast<int>(layers.size()), spec.layer_count());
    for (int index = 0; index < spec.layer_count(); ++index) {
      const LayerDecl decl = Declare(spec, index, {1, 1});
      int64_t count = 0;
      for (const ParameterDecl& parameter : decl.parameters) {
        if (parameter.tied_to.empty()) count += ElementCount(parameter.shape);
      }
      EXPECT_EQ(count, layers[static_cast<size_t>(index)].parameters) << spec.name << " " << index;
      EXPECT_EQ(decl.name, layers[static_cast<size_t>(index)].name);
    }
  }
}

TEST(MakeLayerTest, NeighboursAgreeOnWhatPassesBetweenThem) {
  for (const TestModel& model : TestModels()) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const auto described = DescribeLayers(model.spec, model.batch);
      for (int index = 0; index + 1 < model.spec.layer_count(); ++index) {
        const LayerDecl before = Declare(model.spec, index, model.batch, dtype);
        const LayerDecl after = Declare(model.spec, index + 1, model.batch, dtype);
        EXPECT_EQ(before.output_shape, after.input_shape);
        EXPECT_EQ(before.output_dtype, dtype);
        EXPECT_EQ(after.input_dtype, dtype);
        EXPECT_EQ(before.has_input_grad, index > 0);
        EXPECT_EQ(ElementCount(before.output_shape), described[index].output_elements);
      }
      const auto last = Make(model.spec, model.spec.layer_count() - 1, model.batch, dtype);
      EXPECT_TRUE(last->decl().output_shape.empty());
    }
  }
}

// As transformers' GPT2LMHeadModel.state_dict() names and shapes them (Conv1D stores [in, out]).
TEST(MakeLayerTest, GptHasTheNamesAndShapesOfHuggingFace) {
  const ModelSpec spec{"g", TinyGpt(true)};  // dim 12, hidden 20, vocab 11, max_seq 7
  const std::map<std::string, Shape> outside = {
      {"transformer.wte.weight", {11, 12}}, {"transformer.wpe.weight", {7, 12}},
      {"transformer.ln_f.weight", {12}},    {"transformer.ln_f.bias", {12}},
      {"lm_head.weight", {11, 12}},
  };
  const std::map<std::string, Shape> inside = {
      {"ln_1.weight", {12}},      {"ln_1.bias", {12}},        {"attn.c_attn.weight", {12, 36}},
      {"attn.c_attn.bias", {36}}, {"attn.c_proj.bias", {12}}, {"attn.c_proj.weight", {12, 12}},
      {"ln_2.weight", {12}},      {"ln_2.bias", {12}},        {"mlp.c_fc.weight", {12, 20}},
      {"mlp.c_fc.bias", {20}},    {"mlp.c_proj.bias", {12}},  {"mlp.c_proj.weight", {20, 12}},
  };
  std::map<std::string, Shape> expected = outside;
  for (const char* block : {"transformer.h.0.", "transformer.h.1."}) {
    for (const auto& [name, shape] : inside) expected[block + name] = shape;
  }
  EXPECT_EQ(Shapes(spec), expected);
}

// As transformers' LlamaForCausalLM and its like name and shape them (Linear stores [out, in]).
TEST(MakeLayerTest, OtherFamiliesHaveTheNamesAndShapesOfHuggingFace) {
  // dim 10, 4 heads of queries and 2 of keys and values of 6 values each, hidden 14, vocab 11.
  std::map<std::string, Shape> expected = {{"model.embed_tokens.weight", {11, 10}},
                                           {"model.norm.weight", {10}},
                                           {"lm_head.weight", {11, 10}}};
  for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      expected[block + norm + ".weight"] = {10};
    }
    expected[block + "self_attn.q_proj.weight"] = {24, 10};
    expected[block + "self_attn.k_proj.weight"] = {12, 10};
    expected[block + "self_attn.v_proj.weight"] = {12, 10};
    expected[block + "self_attn.o_proj.weight"] = {10, 24};
    expected[block + "mlp.gate_proj.weight"] = {14, 10};
    expected[block + "mlp.up_proj.weight"] = {14, 10};
    expected[block + "mlp.down_proj.weight"] = {10, 14};
  }
  EXPECT_EQ(Shapes({"m", TinyLlama("llama")}), expected);
  EXPECT_EQ(Shapes({"m", TinyGemma("gemma")}), expected);
  std::map<std::string, Shape> qwen2 = expected, qwen3 = expected, gemma3 = expected;
  for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
    qwen2[block + "self_attn.q_proj.bias"] = {24};
    qwen2[block + "self_attn.k_proj.bias"] = qwen2[block + "self_attn.v_proj.bias"] = {12};
    for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) {
      qwen3[block + norm] = gemma3[block + norm] = {6};
    }
    for (const char* norm : {"pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
      gemma3[block + norm + ".weight"] = {10};
    }
  }
  EXPECT_EQ(Shapes({"m", TinyQwen2()}), qwen2);
  EXPECT_EQ(Shapes({"m", TinyQwen3()}), qwen3);
  EXPECT_EQ(Shapes({"m", TinyGemma3()}), gemma3);
}

// transformers' _init_weights: every matrix alike, without regard to the depth; gains of 1.
TEST(MakeLayerTest, OtherFamiliesStartAsTransformersDoes) {
  DecoderConfig config = TinyBiasedLlama();
  config.initializer_range = 0.05f;
  for (const bool offset : {false, true}) {
    config.norm_offset = offset;
    for (const auto& [name, decl] : Parameters({"m", config})) {
      using Init = ParameterDecl::Init;
      const bool matrix = decl.shape.size() == 2;
      const bool gain = !matrix && name.ends_with("weight");
      EXPECT_EQ(decl.decay, matrix) << name;
      EXPECT_EQ(decl.init, matrix            ? Init::kNormal
                           : gain && !offset ? Init::kOnes
                                             : Init::kZeros)
          << name;
      if (matrix) {
        EXPECT_EQ(decl.stddev, 0.05f) << name;
      }
    }
  }
}

TEST(MakeLayerTest, RmsNormsHaveAllButTheBiases) {
  std::map<std::string, ParameterDecl> expected = Parameters({"g", TinyGpt(false)});
  EXPECT_EQ(std::erase_if(expected,
                          [](const auto& parameter) {
                            return absl::StrContains(parameter.first, ".ln_") &&
                                   parameter.first.ends_with(".bias");
                          }),
            2 * 2 + 1);
  const auto found = Parameters({"g", TinyGpt(false, NormKind::kRms)});
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, decl] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).shape, decl.shape) << name;
    EXPECT_EQ(found.at(name).init, decl.init) << name;
    EXPECT_EQ(found.at(name).decay, decl.decay) << name;
  }
}

void ExpectTied(const DecoderConfig& config, const char* to) {
  for (const auto& [name, decl] : Parameters({"m", config})) {
    EXPECT_EQ(decl.tied_to, name == "lm_head.weight" ? to : "") << name;
  }
}

TEST(MakeLayerTest, OnlyATiedHeadIsTied) {
  ExpectTied(TinyGpt(false), "");
  ExpectTied(TinyGpt(true), "transformer.wte.weight");
  ExpectTied(TinyQwen3(), "");
  ExpectTied(TinyQwen2(), "model.embed_tokens.weight");
}

TEST(MakeLayerTest, GptStartsAsGpt2Does) {
  for (const auto& [name, decl] : Parameters({"g", TinyGpt(false)})) {
    const bool matrix = decl.shape.size() == 2;
    EXPECT_EQ(decl.decay, matrix) << name;
    EXPECT_EQ(decl.init == ParameterDecl::Init::kNormal, matrix) << name;
    EXPECT_EQ(decl.init == ParameterDecl::Init::kOnes, !matrix && name.ends_with("weight")) << name;
    const double shrink = name.ends_with("c_proj.weight") ? std::sqrt(2.0 * 2) : 1;
    if (!matrix) continue;
    EXPECT_NEAR(decl.stddev, 0.02 / shrink, 1e-8) << name;
  }
}

TEST(MakeLayerTest, MlpStartsAsHe) {
  const auto parameters = Parameters({"m", MlpConfig{{50, 20, 10}}});
  ASSERT_EQ(parameters.size(), 4u);
  EXPECT_THAT(parameters.at("layers.0.weight").shape, ElementsAre(20, 50));
  EXPECT_THAT(parameters.at("layers.1.bias").shape, ElementsAre(10));
  EXPECT_NEAR(parameters.at("layers.0.weight").stddev, 0.2, 1e-7);
  EXPECT_EQ(parameters.at("layers.0.bias").init, ParameterDecl::Init::kZeros);
}

// Korthikanti et al. 2022, section 4.1: 34 s b h bytes in 16 bits besides the scores, of which 2
// are dropout's masks (GPT here has none). The other 32: norm inputs x and x_mid, a1, qkv, att, a2,
// and h and g, each four times as wide. Besides them fp32 statistics: two a row for each layer
// norm, one for each RMS norm, and one for each row and head.
void ExpectWhatThePaperCounts(const DecoderConfig& config, int64_t norm_statistics) {
  const ModelSpec spec{"g", config};
  const BatchShape batch{4, 256};
  const int64_t elements = batch.rows() * spec.decoder()->dim;
  const LayerDecl decl = Declare(spec, 1, batch, DType::kBFloat16);
  int64_t kept = elements * 2, statistics = 0, restorable = 0;
  for (const TensorDecl& tensor : decl.tensors) {
    const bool forward = tensor.lifetime == Lifetime::kForwardToInputGrad ||
                         tensor.lifetime == Lifetime::kForwardToWeightGrad;
    if (!forward) continue;
    (tensor.dtype == DType::kFloat32 ? statistics : kept) += tensor.bytes();
    if (tensor.restorable) restorable += tensor.bytes();
  }
  EXPECT_EQ(kept, elements * 16 * 2);
  EXPECT_EQ(statistics, (norm_statistics + spec.decoder()->heads) * batch.rows() * 4);
  EXPECT_EQ(restorable, elements * 7 * 2 + spec.decoder()->heads * batch.rows() * 4);
}

TEST(MakeLayerTest, ABlockKeepsWhatThePaperCounts) {
  ExpectWhatThePaperCounts({}, 4);
  ExpectWhatThePaperCounts({.norm = NormKind::kRms}, 2);
}

struct BadCall {
  ModelSpec spec;
  int index;
  BatchShape batch;
  DType dtype;
  const char* message;
};

TEST(MakeLayerTest, BadArgumentsAreNamed) {
  const ModelSpec gpt{"tiny", TinyGpt(false)}, mlp{"mlp", MlpConfig{}};
  const ModelSpec broken{"broken", DecoderConfig{.heads = 7}};
  const DType fp32 = DType::kFloat32;
  const std::vector<BadCall> cases = {
      {broken, 0, {1, 1}, fp32, "multiple of heads 7"},
      {gpt, -1, {1, 1}, fp32, "layer -1 of model 'tiny' does not exist: it has layers 0 to 3"},
      {gpt, 4, {1, 1}, fp32, "layer 4"},
      {gpt, 0, {1, 8}, fp32, "sequence length 8 does not fit model 'tiny': expected 1 to 7"},
      {mlp, 0, {1, 2}, fp32, "expected 1 to 1"},
      {gpt, 0, {1, 0}, fp32, "sequence length 0"},
      {gpt, 0, {0, 1}, fp32, "micro-batch size 0"},
      {gpt, 0, {int64_t{1} << 40, 7}, fp32, "micro-batch size 1099511627776"},
      {gpt, 0, {1, 1}, DType::kInt32, "compute type int32"},
  };
  for (const BadCall& bad : cases) {
    const auto layer = MakeLayer(bad.spec, bad.index, bad.batch, bad.dtype, ReferenceKernels());
    EXPECT_EQ(layer.status().code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(layer.status().message()), HasSubstr(bad.message));
  }
}

}  // namespace
}  // namespace sluice
