// Saved weights: where runs and samples start from them, and who else reads them.

#include <sys/wait.h>

#include <cstdlib>

#include "gmock/gmock.h"
#include "tests/built_files.h"
#include "tests/shared_folder.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(TrainCommandTest, StartsFromSavedWeightsOnAnyNumberOfStages) {
  const Json saved = Summary("--steps 2 --save " + folder_ / "out");
  for (const char* stages : {"1", "2", "3", "4"}) {
    const Json started =
        Summary(absl::StrCat("--steps 0 --stages ", stages, " --init ", folder_ / "out/latest"));
    EXPECT_EQ(started["weights_hash"], saved["weights_hash"]) << stages;
  }
}

TEST_F(TrainCommandTest, TiedWeightsStartOnAnyNumberOfStages) {
  const Json saved = Summary("--tied --steps 2 --save " + folder_ / "out");
  for (const char* stages : {"1", "3"}) {
    const Json started = Summary(
        absl::StrCat("--tied --steps 0 --stages ", stages, " --init ", folder_ / "out/latest"));
    EXPECT_EQ(started["weights_hash"], saved["weights_hash"]) << stages;
  }
  EXPECT_THAT(Run("--steps 1 --init " + folder_ / "out/latest").err,
              HasSubstr("lm_head.weight; its head is tied"));
}

TEST_F(TrainCommandTest, RmsNormsAreTrainedSavedResumedAndSampled) {
  const std::string rms = "--norm rms --steps ";
  const Json saved = Summary(rms + "2 --save " + folder_ / "out");
  EXPECT_EQ(Summary(rms + "2 --stages 4 --schedule zb-h1")["weights_hash"], saved["weights_hash"]);
  EXPECT_NE(Summary("--steps 2")["final_loss"], saved["final_loss"]);
  EXPECT_EQ(Summary(rms + "3 --stages 1 --resume " + folder_ / "out")["weights_hash"],
            Summary(rms + "3")["weights_hash"]);
  EXPECT_THAT(Run("--steps 3 --resume " + folder_ / "out").err,
              HasSubstr("--norm (saved rms, given layer)"));
  EXPECT_THAT(Run("--steps 1 --init " + folder_ / "out/latest").err, HasSubstr("--norm rms"));
  const ProcessResult sample =
      RunSluice(Words(absl::StrCat("sample -n 4 --prompt And --load ", folder_ / "out")));
  EXPECT_EQ(sample.exit_code, kExitDone) << sample.err;
}

TEST_F(TrainCommandTest, SamplesTheSameTextFromTheSameSeed) {
  Summary("--steps 20 --lr 1e-2 --save " + folder_ / "out");
  const auto sample = [this](const std::string& more) {
    const ProcessResult result =
        RunSluice(Words(absl::StrCat("sample --load ", folder_ / "out", " -n 40 --json ", more)));
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    return Json::parse(result.out);
  };
  const Json one = sample("--prompt And --seed 1");
  EXPECT_EQ(one["tokens"].size(), 40u);  // past the 16 that the model sees at once
  EXPECT_EQ(one["tokens"], sample("--prompt And --seed 1 --threads 2")["tokens"]);
  EXPECT_NE(one["tokens"], sample("--prompt And --seed 2")["tokens"]);
  EXPECT_EQ(sample("")["prompt_tokens"], Json::array({'\n'}));
  EXPECT_EQ(sample("--temperature 0 --seed 1")["tokens"],
            sample("--temperature 0 --seed 2")["tokens"]);
  // The text form is the prompt and the same text.
  const ProcessResult text = RunSluice(
      Words(absl::StrCat("sample --load ", folder_ / "out", " -n 40 --prompt And --seed 1")));
  EXPECT_EQ(text.out, absl::StrCat("And", one["text"].get<std::string>(), "\n"));
}

TEST(HuggingFace, TransformersGivesTheSameLogits) {
  constexpr int kNoTransformers = 77;
  const char* const python = std::getenv("SLUICE_PEER_PYTHON");
  const int status =
      std::system(absl::StrCat(python != nullptr ? python : "python3", " ", SourceFolder().string(),
                               "/tests/peers/hf_parity.py ", SluiceProgram())
                      .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoTransformers) GTEST_SKIP() << "needs Python with transformers";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sluice
