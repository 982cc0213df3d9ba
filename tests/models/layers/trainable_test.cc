// Every model has one description, and one function says whether it trains.
#include "models/layers/trainable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/adapted_layers.h"
#include "models/layers/layer.h"
#include "models/spec/costs/describe_decoder.h"
#include "models/spec/costs/describe_layers.h"
#include "models/spec/model_config.h"
#include "models/spec/presets.h"
#include "tests/models/layers/test_models.h"
#include "tests/models/spec/hub_configs.h"
#include "tests/models/twins/reference_kernels.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct PresetFacts {
  int64_t parameters = 0;
  bool trains = false;
};

// Parameters as transformers 5.23 counts them for the released models (DeepSeek-V3 without the
// block that predicts ahead); of char-gpt and mlp, the sum over their matrices and vectors.
std::map<std::string, PresetFacts> Facts() {
  const int64_t d = 384;
  const int64_t char_gpt = int64_t{3} * 256 * d + 6 * (12 * d * d + 13 * d) + 2 * d;
  const int64_t mlp = 785 * 512 + 513 * 256 + 257 * 10;
  return {
      {"char-gpt", {char_gpt, true}},
      {"gpt2", {124'439'808, true}},
      {"gpt2-medium", {354'823'168, true}},
      {"gpt2-large", {774'030'080, true}},
      {"gpt2-xl", {1'557'611'200, true}},
      {"mlp", {mlp, true}},
      {"llama-3.1-8b", {8'030'261'248, true}},
      {"llama-3.1-70b", {70'553'706'496, true}},
      {"llama-3.1-405b", {405'853'388'800, true}},
      {"qwen3-0.6b", {596'049'920, true}},
      {"mixtral-8x7b", {46'702'792'704, false}},
      {"deepseek-v3", {671'026'404'352, false}},
  };
}

TEST(CheckTrainable, EveryPresetIsCountedAndKnownToTrainOrNot) {
  const std::map<std::string, PresetFacts> facts = Facts();
  EXPECT_EQ(PresetNames().size(), facts.size());
  for (const std::string& name : PresetNames()) {
    ASSERT_TRUE(facts.contains(name)) << name;
    ModelSpec spec = *PresetModel(name);
    EXPECT_EQ(CheckTrainable(spec).ok(), facts.at(name).trains) << name;
    if (auto* decoder = std::get_if<DecoderConfig>(&spec.config)) decoder->predict_ahead = 0;
    EXPECT_EQ(ParameterCount(spec), facts.at(name).parameters) << name;
  }
}

// What the test's small models are made for: every one of them trains.
TEST(CheckTrainable, LetsPassWhatTheLayersAreTestedOn) {
  for (const TestModel& model : TestModels()) {
    EXPECT_TRUE(CheckTrainable(model.spec).ok()) << CheckTrainable(model.spec);
  }
}

struct Unsupported {
  std::function<void(DecoderConfig*)> change;  // of a GPT that trains
  const char* has;
  const char* expected;
};

std::vector<Unsupported> EachField() {
  return {
      {[](DecoderConfig* c) { c->kv_heads = 1; },
       "grouped queries (3 heads of queries, 1 of keys and values)",
       "as many heads of keys and values as of queries"},
      {[](DecoderConfig* c) { c->head_dim = 5; }, "3 heads of 5 values in a width of 12",
       "heads that together are as wide as the model"},
      {[](DecoderConfig* c) { c->learned_positions = false; }, "rotary positions",
       "a learned table of positions"},
      {[](DecoderConfig* c) { c->predict_ahead = 1; }, "1 blocks that predict further tokens",
       "none"},
      {[](DecoderConfig* c) { c->norms = 3; }, "3 norms per block", "2: one before attention"},
      {[](DecoderConfig* c) { c->norms = 4; }, "layer norms after attention", "RMS norms"},
      {[](DecoderConfig* c) {
         c->norms = 4;
         c->norm = NormKind::kRms;
       },
       "norms after attention and the MLP", "none"},
      {[](DecoderConfig* c) { c->norm_offset = true; }, "layer norms with an offset", "RMS norms"},
      {[](DecoderConfig* c) { c->qk_norm = true; }, "layer norms over queries and keys",
       "RMS norms"},
      {[](DecoderConfig* c) { c->embedding_scale = 2; }, "scales of its own", "those of GPT-2"},
      {[](DecoderConfig* c) { c->attention_scale = 2; }, "scales of its own", "those of GPT-2"},
      {[](DecoderConfig* c) { c->attention_soft_cap = 2; }, "a soft cap over scores", "none"},
      {[](DecoderConfig* c) { c->final_soft_cap = 2; }, "a soft cap over its logits", "none"},
      {[](DecoderConfig* c) {
         c->qk_norm = true;
         c->norm = NormKind::kRms;
       },
       "norms over queries and keys", "none"},
      {[](DecoderConfig* c) { c->qkv_bias = false; }, "attention without biases", "a bias"},
      {[](DecoderConfig* c) { c->output_bias = false; }, "attention without biases", "a bias"},
      {[](DecoderConfig* c) { c->window = 4; }, "a sliding window of 4 tokens",
       "attention to all earlier tokens"},
      {[](DecoderConfig* c) { c->latent = LatentAttention{}; }, "latent attention",
       "queries, keys and values from one map each"},
      {[](DecoderConfig* c) { c->mlp = MlpKind::kSwiGlu; }, "a gated MLP (SwiGLU)",
       "an MLP with GELU and no gate"},
      {[](DecoderConfig* c) { c->mlp = MlpKind::kGeGlu; }, "a gated MLP (GeGLU)",
       "an MLP with GELU and no gate"},
      {[](DecoderConfig* c) { c->mlp_bias = false; }, "an MLP without biases", "a bias"},
      {[](DecoderConfig* c) { c->experts = Experts{.count = 8, .active = 2, .hidden = 4}; },
       "a mixture of 8 experts", "one MLP per block"},
  };
}

// MakeLayer says the same: nothing trains that the layers would compute otherwise.
TEST(CheckTrainable, NamesEachThingThatNoLayerComputes) {
  for (const Unsupported& field : EachField()) {
    DecoderConfig config = TinyGpt(false);
    field.change(&config);
    const ModelSpec spec{"mine", config};
    const absl::Status status = CheckTrainable(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field.has;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("model 'mine' (gpt2) has "), HasSubstr(field.has),
                      HasSubstr("; expected "), HasSubstr(field.expected)));
    for (int index = 0; index < spec.layer_count(); ++index) {
      const auto layer = MakeLayer(spec, index, {1, 1}, DType::kFloat32, ReferenceKernels());
      EXPECT_EQ(layer.status(), status) << field.has;
    }
  }
}

TEST(CheckTrainable, LetsPassOtherWordsForTheSameGpt) {
  DecoderConfig config = TinyGpt(false);  // dim 12, 3 heads
  config.kv_heads = 3;
  config.head_dim = 4;
  EXPECT_TRUE(CheckTrainable({"mine", config}).ok()) << CheckTrainable({"mine", config});
}

TEST(CheckTrainable, NamesWhatMakesNoSense) {
  DecoderConfig config;
  config.heads = 7;
  EXPECT_THAT(std::string(CheckTrainable({"mine", config}).message()),
              HasSubstr("dim 384 is not a multiple of heads 7"));
}

// Families that vary Llama's block train, unless they have one of these.
TEST(CheckTrainable, NamesWhatKeepsOtherFamiliesFromTraining) {
  const std::vector<Unsupported> fields = {
      {[](DecoderConfig* c) { c->learned_positions = true; }, "a learned table of positions",
       "rotary positions"},
      {[](DecoderConfig* c) { c->norm = NormKind::kLayer; }, "layer norms", "RMS norms"},
      {[](DecoderConfig* c) { c->norms = 3; }, "3 norms per block", "2: one before attention"},
      {[](DecoderConfig* c) { c->predict_ahead = 1; }, "1 blocks that predict further", "none"},
      {[](DecoderConfig* c) { c->latent = LatentAttention{.rotary_dim = 2}; }, "latent attention",
       "queries, keys and values from one map each"},
      {[](DecoderConfig* c) { c->experts = Experts{.count = 8, .active = 2, .hidden = 4}; },
       "a mixture of 8 experts", "one MLP per block"},
  };
  for (const Unsupported& field : fields) {
    DecoderConfig config = TinyLlama("llama");
    field.change(&config);
    const absl::Status status = CheckTrainable({"mine", config});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field.has;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("model 'mine' (llama) has "), HasSubstr(field.has),
                      HasSubstr("; expected "), HasSubstr(field.expected)));
  }
}

TEST(CheckTrainable, OfTheHubRefusesMixturesOfExpertsAndLatentAttention) {
  const std::vector<HubConfig> configs = HubConfigs();
  if (configs.empty()) GTEST_SKIP() << "no config.json in " << SharedFolder();
  for (const auto& [path, json] : configs) {
    const auto spec = ParseModelConfig(json, path);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const absl::Status status = CheckTrainable(*spec);
    const DecoderConfig& decoder = *spec->decoder();
    EXPECT_EQ(status.ok(), !decoder.experts && !decoder.latent) << path << ": " << status;
    if (status.ok()) continue;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path), HasSubstr("can be planned for")));
  }
}

// W of a map has a product for each of its weights that is trained, and so have F, I and W of an
// adapter; what is frozen has none. The layers say what is which.
TEST(DescribeAdapted, CountsWhatTheLayersTrain) {
  for (const TestModel& model : AdaptedModels()) {
    const double flops = 2 * static_cast<double>(model.batch.rows());
    const std::vector<LayerSpec> whole = DescribeLayers(model.spec, model.batch);
    const std::vector<LayerSpec> adapted =
        DescribeAdapted(model.spec, model.batch, model.adaptation);
    ASSERT_EQ(adapted.size(), whole.size());
    for (size_t i = 1; i < whole.size(); ++i) {  // tables have no products
      SCOPED_TRACE(model.name + ", " + whole[i].name);
      const auto layer = MakeLayer(model.spec, static_cast<int>(i), model.batch, DType::kFloat32,
                                   CpuKernels(), model.adaptation);
      ASSERT_TRUE(layer.ok()) << layer.status();
      double trained = 0, adapters = 0;
      for (const ParameterDecl& parameter : (*layer)->decl().parameters) {
        if (parameter.shape.size() < 2) continue;
        trained += flops * static_cast<double>(TrainedElements(parameter));
        if (!IsAdapter(parameter.name)) continue;
        adapters += flops * static_cast<double>(ElementCount(parameter.shape));
      }
      EXPECT_EQ(adapted[i].weight_grad_flops, trained);
      EXPECT_EQ(adapted[i].forward_flops, whole[i].forward_flops + adapters);
      EXPECT_EQ(adapted[i].input_grad_flops, whole[i].input_grad_flops + adapters);
    }
  }
}

// The description and the layers name the same parameters, tied ones once.
TEST(TrainedPartsOf, AreWhatTheLayersTrain) {
  for (const TestModel& model : AdaptedModels()) {
    const DecoderConfig* const config = model.spec.decoder();
    if (config == nullptr) continue;
    const std::vector<DecoderLayer> described = DescribeDecoder(
        *config, model.batch, DType::kFloat32, {}, TrainedPartsOf(*config, model.adaptation));
    int64_t sum = 0;
    for (size_t i = 0; i < described.size(); ++i) {
      SCOPED_TRACE(model.name + ", " + described[i].spec.name);
      const auto layer = MakeLayer(model.spec, static_cast<int>(i), model.batch, DType::kFloat32,
                                   CpuKernels(), model.adaptation);
      ASSERT_TRUE(layer.ok()) << layer.status();
      int64_t trained = 0, frozen = 0;
      for (const ParameterDecl& parameter : (*layer)->decl().parameters) {
        if (!parameter.tied_to.empty()) continue;
        trained += TrainedElements(parameter);
        if (parameter.frozen) frozen += ElementCount(parameter.shape);
      }
      EXPECT_EQ(described[i].trained_parameters(), trained);
      EXPECT_EQ(described[i].frozen_parameters, frozen);
      sum += trained;
    }
    EXPECT_EQ(TrainedParameterCount(*config, model.adaptation), sum) << model.name;
  }
}

TEST(DescribeAdapted, IsDescribeLayersWhereAllIsTrained) {
  for (const TestModel& model : TestModels()) {
    EXPECT_EQ(FlopsPerMicroBatch(DescribeAdapted(model.spec, model.batch, {})),
              FlopsPerMicroBatch(DescribeLayers(model.spec, model.batch)));
  }
}

absl::Status CheckTrainedOf(const Adaptation& adaptation) {
  return CheckTrained(adaptation, {"mine", TinyLlama("llama")}, DType::kFloat32);
}

// What is never frozen is nothing that a pattern may be meant for.
TEST(CheckTrained, RefusesToFreezeAdapters) {
  for (const char* pattern : {"*lora_A*", "*.lora_B.weight", "base_model.*"}) {
    const absl::Status status = CheckTrainedOf({.freeze = {pattern}, .lora = Lora{}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(pattern), HasSubstr("no effect")));
  }
  // Without adapters no parameter is called so.
  EXPECT_THAT(std::string(CheckTrainedOf({.freeze = {"*lora_A*"}}).message()),
              HasSubstr("names no parameter"));
  // These are frozen by LoRA, too.
  for (const char* pattern : {"model.norm.weight", "*q_proj*", "*"}) {
    const absl::Status status = CheckTrainedOf({.freeze = {pattern}, .lora = Lora{}});
    EXPECT_TRUE(status.ok()) << pattern << ": " << status;
  }
}

// Another target's adapters are not those of a target whose name ends alike.
TEST(CheckTrained, WantsAMapOfEachTarget) {
  for (const char* target : {"proj", "j", "*", "*_proj", "q_pro?", "norm", "mlp", "nothing"}) {
    const absl::Status status = CheckTrainedOf({.lora = Lora{.targets = {"q_proj", target}}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << target;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("--lora targets=", target, ": no linear map")));
  }
  EXPECT_THAT(std::string(CheckTrainedOf({.lora = Lora{.targets = {"q_prj"}}}).message()),
              HasSubstr("there are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"));
  for (const char* target :
       {"v_proj", "self_attn.v_proj", "model.layers.1.mlp.up_proj", "up_proj"}) {
    const absl::Status status = CheckTrainedOf({.lora = Lora{.targets = {"q_proj", target}}});
    EXPECT_TRUE(status.ok()) << target << ": " << status;
  }
}

TEST(Adaptation, IsReadBackFromItsText) {
  const Adaptation both{
      .freeze = {"*.bias", "lm_head*"},
      .lora = Lora{.rank = 3, .alpha = 0.1, .dropout = 0.1, .targets = {"q_proj", "v_proj"}},
      .base_dtype = DType::kBFloat16};
  for (const Adaptation& one : {Adaptation{}, Adaptation{.lora = Lora{}}, both}) {
    const absl::StatusOr<Adaptation> read = ParseAdaptation(one.ToString());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, one);
  }
  EXPECT_EQ(
      both.ToString(),
      "lora r=3,alpha=0.1,dropout=0.1,rslora=0,targets=q_proj,v_proj; freeze *.bias,lm_head*; "
      "base bf16");
  // As older files have it.
  const auto older =
      ParseAdaptation("lora r=3,alpha=0.10000000000000001,rslora=0,targets=all-linear");
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->ToString(), "lora r=3,alpha=0.1,rslora=0,targets=all-linear");
  EXPECT_FALSE(ParseAdaptation("lora r=0").ok());
  EXPECT_FALSE(ParseAdaptation("something").ok());
}

}  // namespace
}  // namespace sluice
