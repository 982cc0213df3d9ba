#include <sys/wait.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "models/files/shards.h"
#include "models/spec/model_config.h"
#include "tests/models/files/write_safetensors.h"
#include "tests/pipeline/checkpoint/checkpoint_fixture.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LoadWeightsTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::string>& names) {
    std::vector<TensorSource> tensors;
    tensors.reserve(names.size());
    for (const std::string& name : names) tensors.push_back({name, {2}, source_.data()});
    ASSERT_TRUE(WriteSafetensors(path_, tensors, {}).ok());
  }
  absl::Status Load() {
    return LoadWeights(path_,
                       {{"transformer.wte.weight", {2}, a_.data()},
                        {"transformer.h.0.ln_1.weight", {2}, b_.data()},
                        {"lm_head.weight", {2}, c_.data()}},
                       model_);
  }

  TempFolder folder_;
  std::string path_ = folder_ / "model.safetensors";
  WeightNames model_ = {
      .all = {"transformer.wte.weight", "transformer.h.0.ln_1.weight", "lm_head.weight"},
      .tied = {},
      .copies = {}};
  std::vector<float> source_ = {1.5f, -2};
  std::vector<float> a_ = {0, 0};
  std::vector<float> b_ = {0, 0};
  std::vector<float> c_ = {0, 0};
};

TEST_F(LoadWeightsTest, NamesMatchWithAndWithoutThePrefix) {
  for (const std::string prefix : {"transformer.", ""}) {
    a_ = b_ = c_ = {0, 0};
    Write({"lm_head.weight", prefix + "h.0.ln_1.weight", prefix + "h.0.attn.bias",
           prefix + "h.0.attn.masked_bias", prefix + "wte.weight"});
    const absl::Status status = Load();
    ASSERT_TRUE(status.ok()) << status;
    for (const std::vector<float>& values : {a_, b_, c_})
      EXPECT_THAT(values, ElementsAre(1.5f, -2));
  }
  path_ = folder_.path();  // the folder that holds it
  EXPECT_TRUE(Load().ok());
}

// To the nearest bf16, ties to even; what is one stays so.
TEST_F(LoadWeightsTest, RoundsWhereThePlaceIsBFloat16) {
  source_ = {1.00390625f, -2};
  Write({"wte.weight"});
  std::vector<uint16_t> halves = {0, 0, 7};
  const TensorTarget target = {.name = "transformer.wte.weight",
                               .shape = {2},
                               .data = halves.data(),
                               .dtype = DType::kBFloat16};
  WeightNames model = {
      .all = {target.name}, .tied = {{"lm_head.weight", target.name}}, .copies = {target}};
  ASSERT_TRUE(LoadWeights(path_, {target}, model).ok());
  EXPECT_THAT(halves, ElementsAre(0x3f80, 0xc000, 7));
}

TEST_F(LoadWeightsTest, NamesWhatIsMissingAndReadsNothing) {
  Write({"wte.weight"});
  const absl::Status status = Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr("lacks 2 of 3 tensors: "),
                                      HasSubstr("transformer.h.0.ln_1.weight, lm_head.weight")));
  EXPECT_THAT(a_, ElementsAre(0, 0));
}

TEST_F(LoadWeightsTest, NamesShapesThatDiffer) {
  Write({"wte.weight", "h.0.ln_1.weight", "lm_head.weight"});
  const absl::Status status = LoadWeights(
      path_,
      {{"transformer.wte.weight", {2}, a_.data()}, {"transformer.h.0.ln_1.weight", {3}, b_.data()}},
      model_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'h.0.ln_1.weight' has shape [2], expected [3]"));
  EXPECT_THAT(a_, ElementsAre(0, 0));
}

TEST_F(LoadWeightsTest, RefusesADeeperModel) {
  Write({"wte.weight", "h.0.ln_1.weight", "h.1.ln_1.weight", "lm_head.weight"});
  const absl::Status status = Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("deeper"), HasSubstr("'h.1.ln_1.weight'")));
}

TEST_F(LoadWeightsTest, ARankReadsItsPartOfADeeperModel) {
  Write({"wte.weight", "h.0.ln_1.weight", "h.1.ln_1.weight", "lm_head.weight"});
  model_.all.emplace_back("transformer.h.1.ln_1.weight");
  EXPECT_EQ(Load(), absl::OkStatus());
  EXPECT_THAT(b_, ElementsAre(1.5f, -2));
}

// A tensor that nobody reads would change what the model answers.
TEST_F(LoadWeightsTest, NamesWhatTheModelHasNot) {
  Write({"wte.weight", "h.0.ln_1.weight", "h.0.ln_1.scale", "lm_head.weight", "score.weight"});
  const absl::Status status = Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr("2 tensors"),
                                      HasSubstr("h.0.ln_1.scale, score.weight")));
  EXPECT_THAT(a_, ElementsAre(0, 0));
}

// The names of the families other than GPT-2, with and without the prefix of the body.
TEST_F(LoadWeightsTest, TakesTheNamesOfOtherFamilies) {
  const std::string norm = "model.layers.0.input_layernorm.weight";
  model_ = {.all = {"model.embed_tokens.weight", norm},
            .tied = {{"lm_head.weight", "model.embed_tokens.weight"}}};
  for (const std::string prefix : {"model.", ""}) {
    for (const bool head : {false, true}) {
      a_ = b_ = {0, 0};
      std::vector<std::string> names = {prefix + "layers.0.self_attn.rotary_emb.inv_freq",
                                        prefix + "layers.0.input_layernorm.weight",
                                        prefix + "embed_tokens.weight"};
      if (head) names.emplace_back("lm_head.weight");
      Write(names);
      model_.copies = {{"lm_head.weight", {2}, a_.data()}};
      const absl::Status status = LoadWeights(
          path_, {{"model.embed_tokens.weight", {2}, a_.data()}, {norm, {2}, b_.data()}}, model_);
      ASSERT_EQ(status, absl::OkStatus()) << prefix;
      EXPECT_THAT(a_, ElementsAre(1.5f, -2));
      EXPECT_THAT(b_, ElementsAre(1.5f, -2));
    }
  }
  Write({"embed_tokens.weight", "layers.0.input_layernorm.weight", "layers.1.mlp.weight"});
  EXPECT_THAT(LoadWeights(path_, {{norm, {2}, b_.data()}}, model_).message(),
              AllOf(HasSubstr("deeper"), HasSubstr("'layers.1.mlp.weight'")));
}

// A rank whose layers have no copy of a tied tensor does not look at it.
TEST_F(LoadWeightsTest, ATiedHeadIsNoTensorTooMany) {
  Write({"wte.weight", "h.0.ln_1.weight", "lm_head.weight"});
  model_ = {.all = {"transformer.wte.weight", "transformer.h.0.ln_1.weight"},
            .tied = {{"lm_head.weight", "transformer.wte.weight"}}};
  EXPECT_EQ(LoadWeights(path_, {{"transformer.wte.weight", {2}, a_.data()}}, model_),
            absl::OkStatus());
}

// transformers loads such a file as well; that of an untied model lacks its embedding.
TEST_F(LoadWeightsTest, ATiedHeadStandsForTheEmbedding) {
  Write({"h.0.ln_1.weight", "lm_head.weight"});
  const TensorTarget embedding = {"transformer.wte.weight", {2}, a_.data()};
  const TensorTarget head = {"lm_head.weight", {2}, a_.data()};
  EXPECT_THAT(LoadWeights(path_, {embedding}, model_).message(), HasSubstr("lacks 1 of 1 tensors"));
  model_ = {.all = {"transformer.wte.weight", "transformer.h.0.ln_1.weight"},
            .tied = {{head.name, embedding.name}},
            .copies = {head}};
  EXPECT_EQ(LoadWeights(path_, {embedding}, model_), absl::OkStatus());
  EXPECT_THAT(a_, ElementsAre(1.5f, -2));
}

TEST_F(LoadWeightsTest, ReadsShards) {
  const std::string folder = folder_ / "model";
  std::filesystem::create_directory(folder);
  ShardIndex index;
  int shard = 0;
  for (const char* name : {"wte.weight", "h.0.ln_1.weight", "lm_head.weight"}) {
    index.weight_map[name] = ShardName(++shard, 3);
    ASSERT_TRUE(
        WriteSafetensors(folder + "/" + ShardName(shard, 3), {{name, {2}, source_.data()}}, {})
            .ok());
  }
  WriteBytes(folder + "/" + kModelIndexFile, *FormatShardIndex(index, 24, 6));
  path_ = folder;
  ASSERT_EQ(Load(), absl::OkStatus());
  for (const std::vector<float>& values : {a_, b_, c_}) EXPECT_THAT(values, ElementsAre(1.5f, -2));
}

TEST_F(LoadWeightsTest, ATiedFileIsNotForAnUntiedModel) {
  Write({"wte.weight", "h.0.ln_1.weight"});
  EXPECT_THAT(Load().message(),
              AllOf(HasSubstr("lacks 1 of 3 tensors: lm_head.weight"), HasSubstr("--tied")));
}

TEST_F(LoadWeightsTest, LayerNormsAreNotForAModelWithRmsNorms) {
  for (const std::string prefix : {"transformer.", ""}) {
    Write({prefix + "wte.weight", prefix + "h.0.ln_1.weight", prefix + "h.0.ln_1.bias",
           "lm_head.weight"});
    const absl::Status status = Load();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(path_), HasSubstr("layer norms"),
                      HasSubstr(prefix + "h.0.ln_1.bias"), HasSubstr("--norm layer")));
    EXPECT_THAT(b_, ElementsAre(0, 0));
  }
}

TEST_F(LoadWeightsTest, RmsNormsAreNotForAModelWithLayerNorms) {
  Write({"wte.weight", "h.0.ln_1.weight", "lm_head.weight"});
  const std::string bias = "transformer.h.0.ln_1.bias";
  model_.all.push_back(bias);
  EXPECT_THAT(LoadWeights(path_, {{bias, {2}, a_.data()}}, model_).message(),
              AllOf(HasSubstr(bias), HasSubstr("--norm rms")));
}

// Of a split tensor all high halves are read, and the low ones of some elements.
TEST_F(LoadWeightsTest, SplitWeightsAreReadInTwoParts) {
  source_ = {0.1f, -2.7f};
  Write({"wte.weight", "lm_head.weight"});
  std::vector<uint16_t> high(2), low(2, 7);
  TensorTarget target = {.name = "transformer.wte.weight",
                         .shape = {2},
                         .data = high.data(),
                         .dtype = DType::kBFloat16,
                         .split = true,
                         .low_halves = {.values = low.data(), .first = 1, .count = 1}};
  model_ = {.all = {target.name}, .tied = {{"lm_head.weight", target.name}}};
  ASSERT_EQ(LoadWeights(path_, {target}, model_), absl::OkStatus());
  const SplitFloat first = SplitFloat::Of(source_[0]), second = SplitFloat::Of(source_[1]);
  EXPECT_THAT(high, ElementsAre(first.high, second.high));
  EXPECT_THAT(low, ElementsAre(second.low, 7));

  target.name = "lm_head.weight";
  model_.copies = {target};
  EXPECT_EQ(LoadWeights(path_, {}, model_), absl::OkStatus()) << "the copy is equal";
  ++low[0];
  EXPECT_THAT(LoadWeights(path_, {}, model_).message(), HasSubstr("of its own"));
}

TEST_F(LoadWeightsTest, AHeadOfItsOwnIsNotForATiedModel) {
  Write({"wte.weight", "h.0.ln_1.weight", "lm_head.weight"});
  std::vector<float> head = source_;
  model_.copies = {{"lm_head.weight", {2}, head.data()}};
  EXPECT_EQ(Load(), absl::OkStatus());  // a copy, as older files have it
  head[1] = 3;
  EXPECT_THAT(Load().message(), HasSubstr("holds a 'lm_head.weight' of its own"));
}

TEST_F(LoadWeightsTest, MissingFile) {
  EXPECT_EQ(Load().code(), absl::StatusCode::kNotFound);
  path_ = folder_.path();
  EXPECT_THAT(Load().message(), HasSubstr("model.safetensors"));
}

// Through transformers: it makes a model, we load that and save a checkpoint, it loads the
// checkpoint.
struct Exchange {
  bool tied = false;
  bool shards = false;  // of both programs
};

class TransformersTest : public ::testing::TestWithParam<Exchange> {
 protected:
  // Runs the script; its exit status.
  static int Run(const std::string& arguments) {
    const char* const python = std::getenv("SLUICE_PEER_PYTHON");
    const std::string command =
        absl::StrCat(python != nullptr ? python : "python3", " ", SourceFolder().string(),
                     "/tests/peers/transformers_checkpoint.py ", arguments);
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_P(TransformersTest, LoadsWhatWeSaveAndTheOtherWayRound) {
  constexpr int kNoTransformers = 77;
  TempFolder folder;
  const int made = Run(absl::StrCat("make ", folder / "theirs", GetParam().tied ? " tied" : "",
                                    GetParam().shards ? " shards" : ""));
  if (made == kNoTransformers) GTEST_SKIP() << "needs Python with transformers";
  ASSERT_EQ(made, 0);

  RunState state = SomeState(10);
  const absl::StatusOr<ModelSpec> model =
      ParseModelConfig(ReadBytes(folder / "theirs/config.json"), folder / "theirs/config.json");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->decoder()->tied_head, GetParam().tied);
  state.model = *model;
  const auto theirs = OpenModelWeights(folder / "theirs");
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  std::vector<std::vector<float>> values;
  std::vector<TensorTarget> targets;
  WeightNames names;
  std::vector<TensorSource> sources;
  for (const TensorEntry& entry : (*theirs)->entries()) {
    values.emplace_back((entry.end - entry.begin) / sizeof(float));
    targets.push_back({entry.name, entry.shape, values.back().data()});
    names.all.push_back(entry.name);
    sources.push_back({entry.name, entry.shape, values.back().data()});
  }
  ASSERT_EQ(LoadWeights(folder / "theirs", targets, names), absl::OkStatus());
  const int64_t most = GetParam().shards ? 8000 : kShardBytes;
  ASSERT_EQ(SaveTensors(folder / "ours", state, sources, {}, kCheckpointsKept, most).status(),
            absl::OkStatus());
  for (const char* whose : {"theirs", "ours/latest"}) {
    EXPECT_EQ(std::filesystem::exists(folder / whose + "/" + kModelIndexFile), GetParam().shards);
  }
  EXPECT_EQ(Run(absl::StrCat("compare ", folder / "theirs", " ", folder / "ours/latest")), 0);
}

INSTANTIATE_TEST_SUITE_P(Heads, TransformersTest,
                         ::testing::Values(Exchange{}, Exchange{.tied = true},
                                           Exchange{.shards = true},
                                           Exchange{.tied = true, .shards = true}),
                         [](const auto& test) {
                           return std::string(test.param.tied ? "Tied" : "Untied") +
                                  (test.param.shards ? "Shards" : "");
                         });

}  // namespace
}  // namespace sluice
