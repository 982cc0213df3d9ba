// Adapters from beginning to end: trained, saved alone, resumed, sampled, scored and merged.
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kLora[] = " --lora r=4,alpha=16 --lr 1e-2 ";

class AdapterCommandTest : public TrainCommandTest {
 protected:
  void SetUp() override {
    TrainCommandTest::SetUp();
    Summary("--steps 2 --save " + folder_ / "base");
    init_ = absl::StrCat(" --init ", folder_ / "base/latest", " ");
    adapter_ = Summary(absl::StrCat(init_, kLora, "--steps 4 --save ", folder_ / "adapter"));
  }
  // What `command` prints with --json; it ends well.
  static Json Answer(const std::string& command) {
    const ProcessResult result = RunSluice(Words(absl::StrCat(command, " --json")));
    EXPECT_EQ(result.exit_code, kExitDone) << command << ": " << result.err;
    return Json::parse(result.out, nullptr, false);
  }
  std::string Load(const std::string& folder) const {
    return absl::StrCat(" --load ", folder_ / folder, " ");
  }
  void Merge() const {
    Answer(absl::StrCat("merge", Load("base"), "--adapter ", folder_ / "adapter", " -o ",
                        folder_ / "merged"));
  }

  std::string init_;
  Json adapter_;  // the summary of its run
};

TEST_F(AdapterCommandTest, OnlyTheAdapterIsSaved) {
  const std::filesystem::path saved = folder_ / "adapter/latest";
  for (const char* name :
       {"adapter_model.safetensors", "adapter_config.json", "base_config.json"}) {
    EXPECT_TRUE(std::filesystem::exists(saved / name)) << name;
  }
  for (const char* name : {"model.safetensors", "config.json"}) {
    EXPECT_FALSE(std::filesystem::exists(saved / name)) << name;
  }
  const Json config = Json::parse(ReadBytes(saved / "adapter_config.json"));
  const std::string base = std::filesystem::canonical(folder_ / "base/latest");
  EXPECT_EQ(config["base_model_name_or_path"], base);
  EXPECT_EQ(config["r"], 4);
  const ProcessResult sample = RunSluice(Words("sample" + Load("adapter")));
  EXPECT_EQ(sample.exit_code, kExitBadInput);
  EXPECT_THAT(sample.err, HasSubstr(absl::StrCat("give --load ", base, " --adapter ",
                                                 folder_ / "adapter/step-00000004")));
}

TEST_F(AdapterCommandTest, ResumesWithTheWeightsThatItBeganWith) {
  const Json straight = Summary(absl::StrCat(init_, kLora, "--steps 6"));
  const std::string resume = absl::StrCat(kLora, "--steps 6 --resume ", folder_ / "adapter");
  EXPECT_EQ(Summary(resume)["weights_hash"], straight["weights_hash"]);
  EXPECT_EQ(Summary(resume + " --stages 1")["weights_hash"], straight["weights_hash"]);
  const std::string groups = absl::StrCat(kLora, "--sum-groups 2 ");
  Summary(absl::StrCat(init_, groups, "--steps 2 --save ", folder_ / "groups"));
  EXPECT_EQ(
      Summary(absl::StrCat(groups, "--stages 1 --data-parallel 2 --micro-batches 1 --steps 4 ",
                           "--zero 1 --resume ", folder_ / "groups"))["weights_hash"],
      Summary(absl::StrCat(init_, groups, "--steps 4"))["weights_hash"]);
}

TEST_F(AdapterCommandTest, DoesNotReplaceTheModelThatItIsFor) {
  const std::string base = folder_ / "base";
  const ProcessResult replaced =
      Run(absl::StrCat(init_, kLora, "--steps 4 --save ", base, " --overwrite"));
  EXPECT_EQ(replaced.exit_code, kExitBadInput);
  EXPECT_THAT(replaced.err, HasSubstr("the model that the adapter is for"));
  EXPECT_TRUE(std::filesystem::exists(base + "/latest/model.safetensors"));
}

// The base may be named by its file, which PEFT does not take.
TEST_F(AdapterCommandTest, PeftIsToldTheFolderOfTheBase) {
  const std::string file = folder_ / "base/latest/model.safetensors";
  Summary(absl::StrCat("--init ", file, kLora, "--steps 1 --save ", folder_ / "out"));
  const auto json = [this](const char* name) {
    return Json::parse(ReadBytes(absl::StrCat(folder_ / "out/latest/", name)));
  };
  EXPECT_EQ(json("adapter_config.json")["base_model_name_or_path"], folder_ / "base/latest");
  EXPECT_EQ(json("state.json")["base"], file);
}

TEST_F(AdapterCommandTest, OtherWeightsThanItBeganWithAreRefused) {
  Summary("--steps 3 --save " + folder_ / "other");
  const std::string resume = absl::StrCat(kLora, "--steps 6 --resume ", folder_ / "adapter");
  const ProcessResult other = Run(absl::StrCat(resume, " --init ", folder_ / "other/latest"));
  EXPECT_EQ(other.exit_code, kExitBadInput);
  EXPECT_THAT(other.err, HasSubstr("is an adapter of other weights than those in "));
  std::filesystem::remove_all(folder_ / "base");
  EXPECT_THAT(Run(resume).err, HasSubstr("/base/step-00000002"));
}

TEST_F(AdapterCommandTest, RandomWeightsAreThoseOfTheSeed) {
  const std::string flags = absl::StrCat(kLora, "--seed 5 --steps ");
  Summary(absl::StrCat(flags, "2 --save ", folder_ / "out"));
  EXPECT_EQ(Summary(absl::StrCat(flags, "4 --resume ", folder_ / "out"))["weights_hash"],
            Summary(absl::StrCat(flags, "4"))["weights_hash"]);
}

// With a learning rate of 0 nothing moves: what is trained further is what was saved.
TEST_F(AdapterCommandTest, IsTrainedFurther) {
  const std::string further = absl::StrCat(init_, "--adapter ", folder_ / "adapter", " --steps 1 ");
  const Json still = Summary(further + "--lr 0");
  EXPECT_EQ(still["weights_hash"], adapter_["weights_hash"]);
  EXPECT_EQ(still["eval_loss"], adapter_["eval_loss"]);
  EXPECT_NE(Summary(further + "--lr 1e-3")["weights_hash"], adapter_["weights_hash"]);
  const ProcessResult both = Run(absl::StrCat(further, "--lora r=4"));
  EXPECT_EQ(both.exit_code, kExitBadInput);
  EXPECT_THAT(both.err, HasSubstr("give one of them"));
}

TEST_F(AdapterCommandTest, LogitsOfBothFoldersAreThoseOfTheMergedOne) {
  Merge();
  const auto logits = [this](const std::string& folders) {
    const std::string file = folder_ / "logits.json";
    Answer(absl::StrCat("sample", folders, "--tokens 65,66,67,68 -n 0 --logits ", file));
    return Json::parse(ReadBytes(file))["logits"].get<std::vector<std::vector<double>>>();
  };
  const std::string both = absl::StrCat(Load("base"), "--adapter ", folder_ / "adapter ");
  const auto merged = logits(Load("merged")), beside = logits(both), base = logits(Load("base"));
  double most = 0;
  for (size_t row = 0; row < merged.size(); ++row) {
    for (size_t i = 0; i < merged[row].size(); ++i) {
      EXPECT_NEAR(beside[row][i], merged[row][i], 1e-6);
      most = std::max(most, std::abs(base[row][i] - merged[row][i]));
    }
  }
  EXPECT_GT(most, 1e-3);                        // it does something
  for (const char* dtype : {"fp32", "bf16"}) {  // rounded once, behind the sum
    const std::string score = absl::StrCat("score --tokens 65,66,67 --dtype ", dtype);
    EXPECT_EQ(Answer(absl::StrCat(score, both))["loss"],
              Answer(absl::StrCat(score, Load("merged")))["loss"])
        << dtype;
  }
}

// The evaluation of the run, which computes the adapter beside the maps, has the merged model's loss.
TEST_F(AdapterCommandTest, TheMergedModelHasTheLossOfTheRun) {
  Merge();
  const Json merged = Summary(absl::StrCat("--steps 0 --init ", folder_ / "merged"));
  EXPECT_NEAR(merged["eval_loss"].get<double>(), adapter_["eval_loss"].get<double>(), 1e-5);
}

TEST_F(AdapterCommandTest, WhatCannotBeMergedIsSaid) {
  const auto refusal = [this](const std::string& adapter, const std::string& output) {
    const ProcessResult result = RunSluice(
        Words(absl::StrCat("merge", Load("base"), "--adapter ", adapter, " -o ", output)));
    EXPECT_EQ(result.exit_code, kExitBadInput) << result.out;
    return result.err;
  };
  EXPECT_THAT(refusal(folder_ / "base", folder_ / "merged"), HasSubstr("no adapter in "));
  EXPECT_THAT(refusal(folder_ / "nowhere", folder_ / "merged"), HasSubstr("no adapter in "));
  EXPECT_THAT(refusal(folder_ / "adapter", folder_ / "base"), HasSubstr("it has files"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "merged"));
}

}  // namespace
}  // namespace sluice
