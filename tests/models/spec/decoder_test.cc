#include "models/spec/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/spec/costs/decoder_layer.h"
#include "models/spec/costs/describe_decoder.h"
#include "models/spec/costs/describe_layers.h"
#include "models/spec/dtype.h"
#include "models/spec/families/families.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_config.h"
#include "models/spec/model_spec.h"
#include "models/spec/presets.h"
#include "models/spec/validate.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// The shape of a released model, and how many parameters it has: counted by transformers 5.23 from
// the same config.json (AutoModelForCausalLM.from_config on the meta device), which agrees with
// what is published for each where that is exact.
struct Released {
  const char* name;
  Json config;
  int64_t parameters;
};

Json Shape(const char* type, int vocab, int dim, int hidden, int layers, int heads, int kv_heads) {
  return {{"model_type", type},
          {"vocab_size", vocab},
          {"hidden_size", dim},
          {"intermediate_size", hidden},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},
          {"max_position_embeddings", 4096}};
}

Json With(Json config, const Json& more) {
  config.update(more);
  return config;
}

Json DeepSeek(const char* type, Json config, int experts, int active, int shared, int width,
              int dense) {
  return With(std::move(config), {{"model_type", type},
                                  {"n_routed_experts", experts},
                                  {"num_experts_per_tok", active},
                                  {"n_shared_experts", shared},
                                  {"moe_intermediate_size", width},
                                  {"first_k_dense_replace", dense},
                                  {"kv_lora_rank", 512},
                                  {"qk_nope_head_dim", 128},
                                  {"qk_rope_head_dim", 64},
                                  {"v_head_dim", 128}});
}

std::vector<Released> ReleasedModels() {
  return {
      {"Llama-3.1-8B", Shape("llama", 128256, 4096, 14336, 32, 32, 8), 8030261248},
      {"Llama-3.1-70B", Shape("llama", 128256, 8192, 28672, 80, 64, 8), 70553706496},
      {"a llama with biases",
       With(Shape("llama", 1000, 64, 160, 3, 4, 2),
            {{"attention_bias", true}, {"mlp_bias", true}, {"head_dim", 24}}),
       277824},
      {"Mistral-7B",
       With(Shape("mistral", 32000, 4096, 14336, 32, 32, 8), {{"sliding_window", 4096}}),
       7241732096},
      {"Mixtral-8x7B",
       With(Shape("mixtral", 32000, 4096, 14336, 32, 32, 8),
            {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}),
       46702792704},
      {"Qwen2-0.5B",
       With(Shape("qwen2", 151936, 896, 4864, 24, 14, 2), {{"tie_word_embeddings", true}}),
       494032768},
      {"Qwen3-0.6B",
       With(Shape("qwen3", 151936, 1024, 3072, 28, 16, 8),
            {{"tie_word_embeddings", true}, {"head_dim", 128}}),
       596049920},
      {"Qwen1.5-MoE-A2.7B",
       With(Shape("qwen2_moe", 151936, 2048, 5632, 24, 16, 16),
            {{"num_experts", 60},
             {"num_experts_per_tok", 4},
             {"moe_intermediate_size", 1408},
             {"shared_expert_intermediate_size", 5632}}),
       14315784192},
      {"Qwen3-30B-A3B",
       With(Shape("qwen3_moe", 151936, 2048, 6144, 48, 32, 4), {{"num_experts", 128},
                                                                {"num_experts_per_tok", 8},
                                                                {"moe_intermediate_size", 768},
                                                                {"head_dim", 128}}),
       30532122624},
      {"Gemma-2B", With(Shape("gemma", 256000, 2048, 16384, 18, 8, 1), {{"head_dim", 256}}),
       2506172416},
      {"Gemma-2-2B",
       With(Shape("gemma2", 256000, 2304, 9216, 26, 8, 4),
            {{"head_dim", 256}, {"sliding_window", 4096}}),
       2614341888},
      {"Gemma-3-1B",
       With(Shape("gemma3_text", 262144, 1152, 6912, 26, 4, 1),
            {{"head_dim", 256}, {"sliding_window", 512}}),
       999885952},
      {"DeepSeek-V2-Lite",
       With(DeepSeek("deepseek_v2", Shape("", 102400, 2048, 10944, 27, 16, 16), 64, 6, 2, 1408, 1),
            {{"q_lora_rank", nullptr}}),
       15706484224},
      {"DeepSeek-V2",
       With(DeepSeek("deepseek_v2", Shape("", 102400, 5120, 12288, 60, 128, 128), 160, 6, 2, 1536,
                     1),
            {{"q_lora_rank", 1536}}),
       235741434880},
      {"DeepSeek-V3",
       With(DeepSeek("deepseek_v3", Shape("", 129280, 7168, 18432, 61, 128, 128), 256, 8, 1, 2048,
                     3),
            {{"q_lora_rank", 1536}}),
       671026404352},
      {"GPT-2",
       {{"model_type", "gpt2"},
        {"n_layer", 12},
        {"n_embd", 768},
        {"n_head", 12},
        {"n_positions", 1024},
        {"vocab_size", 50257}},
       124439808},
      {"Qwen3-30B-A3B, saved by transformers 5",
       With(Shape("qwen3_moe", 151936, 2048, 6144, 48, 32, 4), {{"num_local_experts", 128},
                                                                {"num_experts_per_tok", 8},
                                                                {"moe_intermediate_size", 768},
                                                                {"head_dim", 128}}),
       30532122624},
  };
}

absl::StatusOr<ModelSpec> Parse(const Json& json, absl::string_view assume = "") {
  return ParseModelConfig(json.dump(), "config.json", assume);
}

TEST(DecoderConfig, CountsTheParametersOfReleasedModels) {
  for (const Released& model : ReleasedModels()) {
    const auto config = Parse(model.config);
    ASSERT_TRUE(config.ok()) << model.name << ": " << config.status();
    EXPECT_EQ(ParameterCount(*config), model.parameters) << model.name;
    EXPECT_TRUE(ValidateSpec(*config).ok()) << model.name << ValidateSpec(*config);
  }
}

TEST(DecoderConfig, EveryFamilyIsCounted) {
  std::set<std::string> counted = {kOwnModelType};  // in spec_huggingface_test
  for (const Released& model : ReleasedModels())
    counted.insert(model.config["model_type"].get<std::string>());
  for (const Family& family : Families()) {
    EXPECT_TRUE(counted.contains(family.model_type)) << family.model_type;
  }
}

// What transformers 5.23 computes of each (MistralMLP, GemmaMLP, ..., and the defaults of their
// configurations), beside what is counted.
TEST(DecoderConfig, SaysWhatFamiliesComputeAlikeAndOtherwise) {
  for (const Released& model : ReleasedModels()) {
    const auto spec = Parse(With(model.config, {{"rms_norm_eps", 3e-5}}));
    ASSERT_TRUE(spec.ok()) << model.name << ": " << spec.status();
    const DecoderConfig& config = *spec->decoder();
    const bool gpt = config.family == "gpt2", gemma = config.family.starts_with("gemma");
    EXPECT_EQ(config.family, model.config["model_type"].get<std::string>());
    EXPECT_EQ(config.norm, gpt ? NormKind::kLayer : NormKind::kRms) << model.name;
    EXPECT_EQ(config.norm_epsilon, gpt ? 1e-5f : 3e-5f) << model.name;
    EXPECT_EQ(config.learned_positions, gpt) << model.name;
    EXPECT_EQ(config.mlp, gpt     ? MlpKind::kGelu
                          : gemma ? MlpKind::kGeGlu
                                  : MlpKind::kSwiGlu)
        << model.name;
  }
}

// Of experts and latent attention what released models seldom have, or leave out: counted by
// transformers 5.24 as those above.
TEST(DecoderConfig, CountsWhatMixturesOfExpertsVary) {
  const Json expert = {{"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}};
  const auto deepseek = [&expert](const char* type) {
    return With(Shape(type, 1000, 64, 160, 5, 4, 4), With(expert, {{"kv_lora_rank", 32},
                                                                   {"qk_nope_head_dim", 16},
                                                                   {"qk_rope_head_dim", 8},
                                                                   {"v_head_dim", 16}}));
  };
  const Json biases = {{"mlp_bias", true},
                       {"n_routed_experts", 4},
                       {"n_shared_experts", 1},
                       {"first_k_dense_replace", 2},
                       {"q_lora_rank", nullptr}};
  const Json qwen = With(
      Shape("qwen2_moe", 1000, 64, 160, 3, 4, 2),
      With(expert,
           {{"num_experts", 4}, {"shared_expert_intermediate_size", 40}, {"qkv_bias", false}}));
  for (const Released& model : std::vector<Released>{
           {"DeepSeek-V2 with all defaults", deepseek("deepseek_v2"), 2960224},
           {"DeepSeek-V3 with all defaults", deepseek("deepseek_v3"), 3912544},
           {"biases of DeepSeek-V2, not of its experts", With(deepseek("deepseek_v2"), biases),
            345776},
           {"DeepSeek-V3, which has none", With(deepseek("deepseek_v3"), biases), 344672},
           {"Qwen 2 without biases", qwen, 244608}}) {
    const auto config = Parse(model.config);
    ASSERT_TRUE(config.ok()) << model.name << ": " << config.status();
    EXPECT_EQ(ParameterCount(*config), model.parameters) << model.name;
  }
  // transformers takes no null here; DeepSeek's own code computes a dense model.
  const auto dense = Parse(With(deepseek("deepseek_v3"),
                                {{"n_routed_experts", nullptr}, {"num_nextn_predict_layers", 1}}));
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_FALSE(dense->decoder()->experts.has_value());
  EXPECT_EQ(dense->decoder()->predict_ahead, 1);
}

// DeepSeek-V3's report, section 2.2 and table of the released files: 14 B more with the block that
// predicts ahead, of which embedding and head are copies of the model's own.
TEST(DecoderConfig, CountsTheBlockThatPredictsAhead) {
  const Released model = ReleasedModels()[14];
  const auto plain = Parse(model.config);
  const auto ahead = Parse(With(model.config, {{"num_nextn_predict_layers", 1}}));
  ASSERT_TRUE(plain.ok() && ahead.ok());
  const int64_t block =
      DescribeDecoder(*plain->decoder(), {}, DType::kBFloat16)[10].spec.parameters;
  const int64_t dim = 7168;
  // Two norms, the map of both inputs, a block, the norm before the head.
  EXPECT_EQ(ParameterCount(*ahead) - ParameterCount(*plain), 3 * dim + 2 * dim * dim + block);
  const double released = 14e9, copies = 2.0 * 129280 * dim;
  EXPECT_NEAR(static_cast<double>(ParameterCount(*ahead) - ParameterCount(*plain)) + copies,
              released, 0.05 * released);
}

// The config.json that is written of a GPT that trains, and its layers in the type that plans use.
TEST(DecoderConfig, AgreesWithTheTrainedGpt) {
  const ModelSpec gpt = *PresetModel("gpt2-medium");
  const auto config = ParseModelConfig(FormatModelConfig(gpt), "config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  const BatchShape batch{3, 128};
  const std::vector<LayerSpec> expected = DescribeLayers(gpt, batch);
  const std::vector<DecoderLayer> layers =
      DescribeDecoder(*config->decoder(), batch, DType::kBFloat16);
  ASSERT_EQ(layers.size(), expected.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(layers[i].spec.name, expected[i].name);
    EXPECT_EQ(layers[i].spec.parameters, expected[i].parameters) << i;
    EXPECT_DOUBLE_EQ(layers[i].spec.forward_flops, expected[i].forward_flops) << i;
    EXPECT_DOUBLE_EQ(layers[i].spec.input_grad_flops, expected[i].input_grad_flops) << i;
    EXPECT_DOUBLE_EQ(layers[i].spec.weight_grad_flops, expected[i].weight_grad_flops) << i;
    EXPECT_EQ(layers[i].spec.output_elements, expected[i].output_elements) << i;
  }
}

// Korthikanti et al. 2022, equation 1: a block of GPT keeps sbh(34 + 5as/h) bytes, of which
// selective recomputation (section 5) drops attention's 5as^2b; the models of their table 3.
TEST(DecoderConfig, BlocksKeepWhatKorthikantiCounts) {
  const struct {
    int64_t heads, dim, layers, batch;
  } models[] = {{64, 6144, 48, 4}, {96, 12288, 96, 1}, {128, 20480, 105, 1}, {160, 25600, 128, 1}};
  for (const auto& model : models) {
    DecoderConfig gpt{
        .layers = 1, .dim = model.dim, .heads = model.heads, .vocab = 51200, .max_seq = 2048};
    const auto config = ParseModelConfig(FormatModelConfig({"gpt", gpt}), "config.json");
    ASSERT_TRUE(config.ok()) << config.status();
    const BatchShape batch{model.batch, 2048};
    const auto layers = DescribeDecoder(*config->decoder(), batch, DType::kBFloat16,
                                        {.flash_attention = false, .dropout = true});
    const int64_t s = 2048, b = model.batch, h = model.dim, a = model.heads;
    EXPECT_EQ(layers[1].saved_bytes(), s * b * h * 34 + 5 * a * s * s * b);
    // W needs the inputs (h, h, h, 4h) and the gradients of the outputs (3h, h, 4h, h) of four
    // maps.
    EXPECT_EQ(layers[1].weight_grad_bytes, 2 * s * b * h * 16);
    // With flash attention the scores are gone.
    const auto flash =
        DescribeDecoder(*config->decoder(), batch, DType::kBFloat16, {.dropout = true});
    EXPECT_EQ(flash[1].saved_bytes(), s * b * h * 34 + 4 * a * s * b);
  }
}

TEST(DecoderConfig, AWindowCostsItsBandOfPairs) {
  Json shape = Shape("mistral", 1000, 64, 128, 2, 4, 2);
  const auto all = Parse(shape);
  shape["sliding_window"] = 16;
  const auto windowed = Parse(shape);
  ASSERT_TRUE(all.ok() && windowed.ok());
  const BatchShape batch{1, 100};
  const auto attention = [&](const ModelSpec& spec) {
    const LayerSpec block = DescribeDecoder(*spec.decoder(), batch, DType::kBFloat16)[1].spec;
    return block.forward_flops - block.weight_grad_flops;
  };
  // A query and its answer: two products of 64 wide, of pairs counted one by one (a half for the
  // diagonal's).
  double pairs = 0;
  for (int query = 0; query < 100; ++query) {
    for (int key = std::max(0, query - 16); key <= query; ++key) {
      pairs += key == query || key == query - 16 ? 0.5 : 1;
    }
  }
  EXPECT_DOUBLE_EQ(attention(*all), 2 * 2 * 64 * 100.0 * 100 / 2);
  EXPECT_NEAR(attention(*windowed), 2 * 2 * 64 * pairs, 2 * 2 * 64 * 8.5);
}

TEST(DecoderConfig, AMixtureComputesOnlyItsActiveExperts) {
  const Released mixtral = ReleasedModels()[4];
  const auto config = Parse(mixtral.config);
  ASSERT_TRUE(config.ok());
  const BatchShape batch{1, 2};
  double linear = 0;
  for (const DecoderLayer& layer : DescribeDecoder(*config->decoder(), batch, DType::kBFloat16)) {
    linear += layer.spec.weight_grad_flops;
  }
  // 12.9 B parameters are active (Jiang et al., Mixtral of Experts, 2024); the embedding is looked
  // up, not multiplied.
  EXPECT_NEAR(linear / (2.0 * 2), 12.9e9 - 32000.0 * 4096, 0.05e9);
}

struct Bad {
  const char* what;
  Json change;
  const char* field;
};

TEST(DecoderConfig, NamesTheFieldThatIsWrong) {
  const Bad bad[] = {
      {"missing", {{"hidden_size", nullptr}}, "hidden_size"},
      {"negative", {{"num_hidden_layers", -1}}, "num_hidden_layers"},
      {"zero", {{"num_attention_heads", 0}}, "num_attention_heads"},
      {"a string", {{"vocab_size", "many"}}, "vocab_size"},
      {"too many", {{"intermediate_size", 4000000000}}, "intermediate_size"},
      {"no divisor", {{"num_key_value_heads", 7}}, "num_key_value_heads"},
      {"heads do not fit", {{"num_attention_heads", 24}}, "num_attention_heads"},
      {"a fraction", {{"hidden_size", 1.5}}, "hidden_size"},
  };
  for (const Bad& input : bad) {
    const auto config = Parse(With(Shape("llama", 1000, 256, 512, 2, 8, 2), input.change));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << input.what;
    EXPECT_THAT(std::string(config.status().message()),
                AllOf(HasSubstr("config.json"), HasSubstr(input.field)))
        << input.what;
  }
  EXPECT_FALSE(ParseModelConfig("{", "config.json").ok());
  EXPECT_FALSE(ParseModelConfig("[]", "config.json").ok());
}

TEST(DecoderConfig, AnUnknownFamilyCanBeAssumed) {
  const Json unknown = Shape("granite", 1000, 256, 512, 2, 8, 2);
  const absl::Status refused = Parse(unknown).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("config.json: field 'model_type' is \"granite\""),
                    HasSubstr("expected gpt2, sluice_gpt, llama, ")));
  const auto assumed = Parse(unknown, "llama");
  ASSERT_TRUE(assumed.ok()) << assumed.status();
  EXPECT_EQ(ParameterCount(*assumed),
            ParameterCount(*Parse(Shape("llama", 1000, 256, 512, 2, 8, 2))));
  EXPECT_FALSE(Parse(unknown, "mamba").ok());
  // A family that is known is read as what it is.
  EXPECT_TRUE(Parse(Shape("llama", 1000, 256, 512, 2, 8, 2), "gpt2").ok());
}

}  // namespace
}  // namespace sluice
