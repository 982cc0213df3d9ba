#include "pipeline/sample/generate.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/model_folder.h"
#include "tests/models/data/files.h"
#include "tests/models/twins/model_runner.h"
#include "tests/pipeline/sample/saved_model.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// A model of random weights that is saved in Hugging Face's format, and its naive twin.
class GenerateTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int kMaxSeq = 40;  // lengths 16, 32 and 40
  static constexpr uint64_t kSeed = 5;

  void SetUp() override {
    spec_ = {"tiny", DecoderConfig{.layers = 2,
                                   .dim = 12,
                                   .heads = 3,
                                   .vocab = 37,
                                   .max_seq = kMaxSeq,
                                   .hidden = 20,
                                   .tied_head = GetParam()}};
    ModelRunner twin = Twin(1);
    SaveModel(spec_, twin, folder_.path());
    auto model = GptModel::Load(folder_.path());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  // With larger weights than a fresh model's, so that logits differ much.
  ModelRunner Twin(int64_t seq) const {
    ModelRunner twin(spec_, {.size = 1, .seq = seq}, DType::kFloat32, CpuKernels(), kSeed);
    for (LayerRunner& layer : twin.layers()) {
      for (size_t p = 0; p < layer.parameters().size(); ++p) {
        const int64_t count = ElementCount(layer.decl().parameters[p].shape);
        float* values = layer.parameters()[p].floats();
        for (int64_t i = 0; i < count; ++i) values[i] *= 10;
      }
    }
    twin.Pack();
    return twin;
  }

  static std::vector<int32_t> Tokens(int count) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back((7 * i + 3 * i * i) % 37);
    return tokens;
  }

  TempFolder folder_;
  ModelSpec spec_;
  std::unique_ptr<GptModel> model_;
};

TEST_P(GenerateTest, LogitsAreTheNaiveTwins) {
  // Also a shorter length after a longer one.
  for (int count : {1, 15, 16, 17, 33, kMaxSeq, 3}) {
    const std::vector<int32_t> tokens = Tokens(count);
    const auto logits = model_->Logits(tokens);
    ASSERT_TRUE(logits.ok()) << logits.status();
    MicroBatch micro_batch;
    micro_batch.input.resize(tokens.size() * sizeof(int32_t));
    std::memcpy(micro_batch.input.data(), tokens.data(), micro_batch.input.size());
    micro_batch.targets = tokens;
    const std::vector<float> expected = Twin(count).Logits(micro_batch);
    ASSERT_EQ(logits->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR((*logits)[i], expected[i], 1e-4) << count << " tokens, value " << i;
    }
    const std::vector<float> all(logits->begin(), logits->end());
    const auto last = model_->Logits(tokens, count - 1);
    ASSERT_TRUE(last.ok()) << last.status();
    EXPECT_TRUE(std::equal(last->begin(), last->end(), all.end() - 37, all.end()));
  }
}

TEST_P(GenerateTest, ContinuesWithTheLikeliestAndSlidesItsWindow) {
  const std::vector<int32_t> prompt = Tokens(30);
  std::vector<int32_t> text = prompt;
  ASSERT_TRUE(Generate(*model_, prompt, 20, {.temperature = 0}, [&](int32_t token) {
                text.push_back(token);
                return true;
              }).ok());
  ASSERT_EQ(text.size(), 50u);
  for (size_t at = prompt.size(); at < text.size(); ++at) {
    const size_t begin = at > kMaxSeq ? at - kMaxSeq : 0;
    const auto logits = model_->Logits(absl::MakeConstSpan(text).subspan(begin, at - begin));
    ASSERT_TRUE(logits.ok());
    const auto last = logits->subspan(logits->size() - 37);
    EXPECT_EQ(text[at], std::max_element(last.begin(), last.end()) - last.begin()) << at;
  }
}

TEST_P(GenerateTest, SameSeedSameText) {
  const auto run = [this](uint64_t seed) {
    std::vector<int32_t> text;
    EXPECT_TRUE(Generate(*model_, Tokens(3), 30, {.seed = seed}, [&](int32_t token) {
                  text.push_back(token);
                  return true;
                }).ok());
    return text;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_P(GenerateTest, StagesAndOtherPromptsChangeNoToken) {
  const std::vector<std::vector<int32_t>> prompts = {Tokens(3), Tokens(30), Tokens(1), Tokens(17)};
  std::vector<std::vector<int32_t>> alone(prompts.size());
  for (size_t p = 0; p < prompts.size(); ++p) {
    ASSERT_TRUE(Generate(*model_, prompts[p], 15, {}, [&](int32_t token) {
                  alone[p].push_back(token);
                  return true;
                }).ok());
  }
  for (const int stages : {1, 2, 3, 4}) {
    std::vector<std::vector<int32_t>> texts(prompts.size());
    const absl::Status status = GenerateAll(*model_, prompts, {.count = 15, .stages = stages},
                                            [&](size_t prompt, int32_t token) {
                                              texts[prompt].push_back(token);
                                              return true;
                                            });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(texts, alone) << stages;
  }
  EXPECT_THAT(GenerateAll(*model_, prompts, {.count = 1, .stages = 5}, {}).message(),
              HasSubstr("--stages 5"));
  EXPECT_THAT(GenerateAll(*model_, {Tokens(41)}, {.count = 1}, {}).message(),
              HasSubstr("41 tokens"));
}

TEST_P(GenerateTest, EndsBeforeAStopToken) {
  std::vector<int32_t> text;
  const auto take = [&text](size_t, int32_t token) {
    text.push_back(token);
    return true;
  };
  ASSERT_TRUE(GenerateAll(*model_, {Tokens(3)}, {.count = 20}, take).ok());
  const std::vector<int32_t> whole = text;
  const int32_t stop = whole[7];
  text.clear();
  ASSERT_TRUE(GenerateAll(*model_, {Tokens(3)}, {.count = 20, .stop = {stop}}, take).ok());
  const auto first = std::find(whole.begin(), whole.end(), stop);
  EXPECT_EQ(text, std::vector<int32_t>(whole.begin(), first));
}

// Norms and biases are fp32; all else takes half.
TEST_P(GenerateTest, MatricesAndCachesTakeHalfInBFloat16) {
  const auto half = GptModel::Load(folder_.path(), /*adapter=*/"", {.dtype = DType::kBFloat16});
  ASSERT_TRUE(half.ok()) << half.status();
  int64_t whole = 0, halved = 0;
  const auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  ModelRunner twin = Twin(1);
  for (const LayerRunner& layer : twin.layers()) {
    for (const ParameterDecl& decl : layer.decl().parameters) {
      if (!decl.tied_to.empty()) continue;
      const int64_t elements = ElementCount(decl.shape);
      whole += aligned(4 * elements);
      halved += aligned((decl.shape.size() > 1 ? 2 : 4) * elements);
    }
  }
  EXPECT_EQ(model_->weight_bytes(), whole);
  EXPECT_EQ((*half)->weight_bytes(), halved);
  const auto cache_bytes = [](const GptModel& model) {
    return (*model.MakeCached({.positions = 32}))->cache_bytes();
  };
  EXPECT_EQ(cache_bytes(*model_), 2 * 2 * 12 * 32 * 4);  // keys and values of two blocks
  EXPECT_EQ(cache_bytes(**half), cache_bytes(*model_) / 2);
}

TEST_P(GenerateTest, RefusesTokensThatItCannotTake) {
  EXPECT_THAT(model_->Logits({}).status().message(), HasSubstr("1 to 40"));
  EXPECT_THAT(model_->Logits(Tokens(41)).status().message(), HasSubstr("41 tokens"));
  EXPECT_THAT(model_->Logits({3, 37}).status().message(), HasSubstr("token 37"));
  EXPECT_THAT(model_->Logits({-1}).status().message(), HasSubstr("token -1"));
  EXPECT_THAT(model_->Logits({1, 2}, 2).status().message(), HasSubstr("0 to 1"));
  EXPECT_FALSE(model_->reads_bytes());  // 37 tokens
}

INSTANTIATE_TEST_SUITE_P(Heads, GenerateTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Tied" : "Untied"; });

TEST(SampleToken, FollowsTheSoftmaxOfTheLikeliest) {
  const std::vector<float> logits = {0.5f, 2, -1, 1, 2, -3};
  constexpr int kDraws = 40'000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    for (const int top_k : {0, 1, 3, 100}) {
      std::vector<int> counts(logits.size());
      for (int i = 0; i < kDraws; ++i) {
        ++counts[static_cast<size_t>(
            SampleToken(logits, {.temperature = temperature, .top_k = top_k, .seed = 9},
                        static_cast<uint64_t>(i)))];
      }
      // By hand: 1 and 4 (equal) are likeliest, then 3.
      std::vector<size_t> kept = {1, 4, 3, 0, 2, 5};
      if (top_k > 0 && top_k < 6) kept.resize(static_cast<size_t>(top_k));
      double sum = 0;
      for (size_t id : kept) sum += std::exp(logits[id] / temperature);
      int seen = 0;
      for (size_t id : kept) {
        const double expected = std::exp(logits[id] / temperature) / sum;
        const double deviation = std::sqrt(expected * (1 - expected) / kDraws);
        EXPECT_NEAR(counts[id] / double{kDraws}, expected, 5 * deviation) << id;
        seen += counts[id];
      }
      EXPECT_EQ(seen, kDraws) << "something else was drawn";
    }
  }
}

TEST(GptModel, RefusesAFolderOfAModelThatContinuesNoText) {
  const TempFolder folder;
  const auto refused = [&folder](const char* config) {
    std::ofstream(folder / "config.json") << config;
    const auto model = GptModel::Load(folder.path());
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << config;
    return std::string(model.status().message());
  };
  EXPECT_THAT(refused(R"({"model_type": "mlp", "widths": [4, 3, 2]})"),
              HasSubstr("only a GPT continues text"));
  EXPECT_THAT(refused(R"({"model_type": "mixtral", "vocab_size": 256, "hidden_size": 64,
                          "intermediate_size": 128, "num_hidden_layers": 2,
                          "num_local_experts": 4, "num_experts_per_tok": 2,
                          "num_key_value_heads": 4,
                          "num_attention_heads": 4, "max_position_embeddings": 16})"),
              HasSubstr("(mixtral) has a mixture of 4 experts"));
}

// Only a link to a step beside it is ours.
TEST(OpenModelFolder, AModelMayBeNamedLatest) {
  namespace fs = std::filesystem;
  const ModelSpec spec = {"tiny", DecoderConfig{.layers = 2, .dim = 12, .heads = 3, .vocab = 37}};
  const TempFolder folder;
  fs::create_directories(folder / "latest");
  std::ofstream(folder / "latest/config.json") << FormatModelConfig(spec);
  fs::create_directories(folder / "links/step-00000001");
  fs::create_directory_symlink("../latest", folder / "links/latest");
  for (const char* named : {"latest", "latest/", "links/latest"}) {
    const absl::StatusOr<ModelFolder> model = OpenModelFolder(folder / named);
    ASSERT_TRUE(model.ok()) << named << ": " << model.status();
    EXPECT_EQ(model->spec.decoder()->vocab, 37);
  }
  fs::copy(folder / "latest/config.json", folder / "links/step-00000001");
  fs::remove(folder / "links/latest");
  fs::create_directory_symlink("step-00000001", folder / "links/latest");
  EXPECT_THAT(std::string(OpenModelFolder(folder / "links/latest").status().message()),
              HasSubstr("step-00000001/state.json"));
}

TEST(SampleToken, TopPLeavesTheFewestThatHaveIt) {
  // Probabilities 0.5, 0.3, 0.2.
  const std::vector<float> logits = {std::log(0.3f), std::log(0.5f), std::log(0.2f)};
  for (uint64_t position = 0; position < 1000; ++position) {
    EXPECT_EQ(SampleToken(logits, {.temperature = 1, .top_p = 0.4}, position), 1);
    EXPECT_NE(SampleToken(logits, {.temperature = 1, .top_p = 0.7}, position), 2);
  }
}

TEST(SampleToken, ZeroTemperatureTakesTheFirstOfTheLargest) {
  for (uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(SampleToken({1, 3, 2, 3}, {.temperature = 0}, position), 1);
  }
}

}  // namespace
}  // namespace sluice
