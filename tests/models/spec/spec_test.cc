#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "models/spec/costs/describe_layers.h"
#include "models/spec/decoder.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "models/spec/presets.h"
#include "models/spec/validate.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelSpec Preset(const std::string& name) { return PresetModel(name).value(); }

TEST(PresetTest, ParametersAreThoseOfTheReleasedWeights) {
  // Numbers of parameters that transformers reports for openai-community/gpt2*.
  EXPECT_EQ(ParameterCount(Preset("gpt2")), 124'439'808);
  EXPECT_EQ(ParameterCount(Preset("gpt2-medium")), 354'823'168);
  EXPECT_EQ(ParameterCount(Preset("gpt2-large")), 774'030'080);
  EXPECT_EQ(ParameterCount(Preset("gpt2-xl")), 1'557'611'200);
}

TEST(PresetTest, EveryPresetValidates) {
  for (const std::string& name : PresetNames()) {
    const ModelSpec spec = Preset(name);
    EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
    EXPECT_EQ(spec.name, name);
  }
}

TEST(PresetTest, AnUnknownNameListsTheKnownOnes) {
  const absl::Status status = PresetModel("gpt5").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'gpt5'"), HasSubstr("char-gpt, gpt2, "), HasSubstr("mlp"),
                    HasSubstr("llama-3.1-8b")));
}

// A width that is 0 follows from another one.
TEST(DecoderTest, WidthsThatAreNotSaidFollowFromOthers) {
  DecoderConfig config{.dim = 96, .heads = 8};
  EXPECT_EQ(config.key_value_heads(), 8);
  EXPECT_EQ(config.head_width(), 12);
  EXPECT_EQ(config.mlp_width(), 4 * 96);
  DecoderConfig said = config;
  said.kv_heads = 8;
  said.head_dim = 12;
  said.hidden = 384;
  EXPECT_EQ(ParameterCount({"said", said}), ParameterCount({"not said", config}));
}

TEST(DescribeLayersTest, NamesAndNumbersLayersInOrder) {
  ModelSpec gpt{"g", DecoderConfig{.layers = 2}};
  std::vector<std::string> names;
  for (const LayerSpec& layer : DescribeLayers(gpt, {1, 8})) names.push_back(layer.name);
  EXPECT_THAT(names, testing::ElementsAre("embedding", "block 0", "block 1", "head"));
  EXPECT_EQ(gpt.layer_count(), 4);
  EXPECT_EQ(Preset("mlp").layer_count(), 3);
  for (const std::string& name : PresetNames()) {
    EXPECT_EQ(static_cast<int>(DescribeLayers(Preset(name), {1, 8}).size()),
              Preset(name).layer_count())
        << name;
  }
}

// Narayanan et al. 2021 (arXiv:2104.04473), section 5.1: forward and backward cost 3 * (24 B s l
// h^2 + 4 B s^2 l h) + 6 B s h V FLOPs; the causal mask halves the second term.
TEST(DescribeLayersTest, FlopsFollowThePublishedFormula) {
  const double batch = 4, seq = 1024, layers = 12, dim = 768, vocab = 50257;
  const double expected =
      3 * (24 * batch * seq * layers * dim * dim + 4 * batch * seq * seq * layers * dim / 2) +
      6 * batch * seq * dim * vocab;
  EXPECT_DOUBLE_EQ(FlopsPerMicroBatch(DescribeLayers(Preset("gpt2"), {4, 1024})), expected);
}

// The biases of two norms a block and of the last one.
TEST(DescribeLayersTest, RmsNormsSaveTheirBiases) {
  const ModelSpec layer = Preset("gpt2");
  DecoderConfig config = *layer.decoder();
  config.norm = NormKind::kRms;
  EXPECT_EQ(ParameterCount(layer) - ParameterCount({"rms", config}), (2 * 12 + 1) * 768);
}

TEST(NormNameTest, IsReadBack) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    EXPECT_EQ(ParseNorm(NormName(kind)), kind);
  }
  for (const char* other : {"", "RMS", "batch", "rms "}) EXPECT_EQ(ParseNorm(other), std::nullopt);
}

TEST(DescribeLayersTest, TheFirstMlpLayerHasNoInputGradient) {
  const auto layers = DescribeLayers({"m", MlpConfig{{10, 20, 3}}}, {7, 1});
  EXPECT_EQ(layers[0].input_grad_flops, 0);
  EXPECT_EQ(layers[0].weight_grad_flops, 2 * 7 * 10 * 20);
  EXPECT_EQ(layers[1].input_grad_flops, 2 * 7 * 20 * 3);
  EXPECT_EQ(layers[0].output_elements, 7 * 20);
  EXPECT_EQ(layers[1].output_elements, 0);
}

struct BadSpec {
  DecoderConfig config;
  const char* message;
};

TEST(ValidateTest, EveryFieldOfADecoderIsNamed) {
  const std::vector<BadSpec> cases = {
      {{.layers = 0}, "layers is 0"},
      {{.dim = -4}, "dim is -4"},
      {{.heads = 0}, "heads is 0"},
      {{.dim = 384, .heads = 5}, "dim 384 is not a multiple of heads 5"},
      {{.heads = 385}, "heads is 385"},
      {{.heads = 6, .kv_heads = 4}, "heads 6 is not a multiple of kv_heads 4"},
      {{.heads = 6, .kv_heads = 7}, "kv_heads is 7"},
      {{.head_dim = -1}, "head_dim is -1"},
      {{.vocab = 1}, "vocab is 1"},
      {{.max_seq = 0}, "max_seq is 0"},
      {{.hidden = -1}, "hidden is -1"},
      {{.predict_ahead = -1}, "predict_ahead is -1"},
      {{.norm_epsilon = 0}, "norm_epsilon is 0"},
      {{.norms = 5}, "norms is 5"},
      {{.window = -1}, "window is -1"},
      {{.embedding_scale = 0}, "embedding_scale is 0"},
      {{.final_soft_cap = -1}, "final_soft_cap is -1"},
      {{.attention_scale = std::nanf("")}, "attention_scale is nan"},
      {{.attention_soft_cap = std::numeric_limits<float>::infinity()}, "attention_soft_cap is inf"},
      {{.layers = 2, .global_blocks = {true}}, "global_blocks is 1"},
      {{.initializer_range = 1.5}, "initializer_range is 1.5"},
      {{.learned_positions = false, .rope = {.theta = 1}}, "rope.theta is 1"},
      {{.learned_positions = false, .rope = {.factor = 0.5}}, "rope.factor is 0.5"},
      {{.learned_positions = false, .rope = {.low_frequency_factor = 4}},
       "rope.high_frequency_factor is 4"},
      {{.learned_positions = false, .rope = {.beta_fast = 0.5}}, "rope.beta_fast is 0.5"},
      {{.learned_positions = false, .rope = {.original_max_seq = -1}},
       "rope.original_max_seq is -1"},
      {{.learned_positions = false, .local_rope = Rope{.theta = 0}}, "local_rope.theta is 0"},
      {{.head_dim = 7, .learned_positions = false}, "the width of a head is 7"},
      {{.layers = 2'000'000'000}, "layers is 2000000000"},
  };
  for (const BadSpec& bad : cases) {
    const absl::Status status = ValidateSpec({"bad", bad.config});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'bad'"), HasSubstr(bad.message)));
  }
}

TEST(ValidateTest, MlpWidthsAreNamed) {
  const auto message = [](std::vector<int> widths) {
    return std::string(ValidateSpec({"bad", MlpConfig{std::move(widths)}}).message());
  };
  EXPECT_THAT(message({784}), HasSubstr("widths has 1 entries"));
  EXPECT_THAT(message({784, 0, 10}), HasSubstr("widths[1] is 0"));
}

// GPT-2's logits of 16,384 rows are in blocks on a processor, which takes a fourth product, and whole
// on a GPU.
TEST(DescribeLayersTest, FollowsTheHeadOfTheDevice) {
  const ModelSpec gpt = Preset("gpt2");
  const LayerSpec blocked = DescribeLayers(gpt, {16, 1024}).back();
  const LayerSpec whole = DescribeLayers(gpt, {16, 1024}, kGpuHead).back();
  EXPECT_GT(blocked.repeated_flops, 0);
  EXPECT_EQ(whole.repeated_flops, 0);
  EXPECT_EQ(whole.forward_flops + whole.input_grad_flops + whole.weight_grad_flops,
            blocked.forward_flops + blocked.input_grad_flops + blocked.weight_grad_flops -
                blocked.repeated_flops);
}

}  // namespace
}  // namespace sluice
