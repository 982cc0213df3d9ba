// What `--save DIR` may do to the files in DIR: it changes no file that sluice did not write,
// nothing while another run saves there, and no checkpoints of another run unless it is told to.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class TrainSavingTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteText(folder_ / "text"); }

  // @ stands for the directory of --save.
  std::vector<std::string> Arguments(const std::string& more) const {
    return Words(absl::StrReplaceAll(
        absl::StrCat("train --json --data ", folder_ / "text", " ", WithTinyRun(more)),
        {{"@", save_}}));
  }
  ProcessResult Run(const std::string& more) const { return RunSluice(Arguments(more)); }
  // Runs to a normal end; returns the hash of its weights.
  std::string Weights(const std::string& more) const {
    const ProcessResult result = Run(more);
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    const Json summary = LastLine(result.out);
    EXPECT_TRUE(summary.is_object()) << result.out;
    return summary.is_object() ? summary.value("weights_hash", "") : "";
  }
  // The message with which a run is refused, in one line and before it trains.
  std::string Refusal(const std::string& more) const {
    const ProcessResult result = Run(more);
    EXPECT_EQ(result.exit_code, kExitBadInput) << more << ": " << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "") << "it trained first";
    return result.err;
  }

  // The names in DIR, without .sluice.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(save_)) {
      const std::string name = entry.path().filename();
      if (name != ".sluice") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  int64_t LatestStep() const {
    const std::string name = fs::read_symlink(save_ + "/latest");
    return std::stoll(name.substr(name.find('-') + 1));
  }

  void WriteForeign(const std::string& name) const {
    const fs::path path = fs::path(save_) / name;
    fs::create_directories(path.parent_path());
    WriteBytes(path, name);
  }
  void ExpectForeign(const std::string& name) const {
    EXPECT_EQ(ReadBytes(save_ + "/" + name), name);
  }

  TempFolder folder_;
  const std::string save_ = folder_ / "out";
};

TEST_F(TrainSavingTest, FilesOfOthersSurvive) {
  const std::vector<std::string> foreign = {".saving_for_tax/2025.pdf",
                                            ".saving/notes",
                                            ".saving-0123456789ab/notes",
                                            ".removing/notes",
                                            ".latest",
                                            "step-00000001/lit_model.pth",
                                            "step-00000003/lit_model.pth"};
  for (const std::string& name : foreign) WriteForeign(name);
  Weights("--steps 8 --save @ --save-every 2");
  for (const std::string& name : foreign) ExpectForeign(name);
  EXPECT_TRUE(fs::exists(save_ + "/step-00000006/state.json"));
  EXPECT_TRUE(fs::exists(save_ + "/latest/state.json"));
  EXPECT_FALSE(fs::exists(save_ + "/step-00000004")) << "its own are pruned";
}

TEST_F(TrainSavingTest, ANameThatSomebodyElseHasIsSaidBeforeTheTraining) {
  WriteForeign("step-00000004/lit_model.pth");
  EXPECT_THAT(Refusal("--steps 6 --save @ --save-every 2"),
              AllOf(HasSubstr("--save " + save_), HasSubstr("step-00000004"), HasSubstr("move")));
  ExpectForeign("step-00000004/lit_model.pth");
  Weights("--steps 6 --save @ --save-every 3");
  ExpectForeign("step-00000004/lit_model.pth");
}

TEST_F(TrainSavingTest, ASecondWriterIsRefusedWhileTheFirstLives) {
  const std::string endless = "--steps 1000000 --save @ --save-every 200";
  SluiceProcess first(Arguments(endless));
  ASSERT_TRUE(first.WaitForOutput("\"checkpoint\"")) << first.Wait().err;
  first.Signal(SIGSTOP);  // whatever happens now is done by the second run
  const std::vector<std::string> before = Names();
  for (const char* more : {"", " --resume @", " --overwrite", " --resume @ --stages 1"}) {
    EXPECT_THAT(
        Refusal(absl::StrCat("--steps 300 --save @", more)),
        AllOf(HasSubstr("--save " + save_), HasSubstr("another run is saving there"),
              HasSubstr(absl::StrCat("process ", first.pid(), " on host ")), HasSubstr(" UTC")))
        << more;
  }
  EXPECT_EQ(Names(), before);
  // Reading is always allowed.
  const std::string rest = absl::StrCat("--resume @ --steps ", LatestStep() + 1, " --save ");
  Weights(absl::StrCat(rest, folder_ / "other"));

  first.Signal(SIGKILL);
  first.Wait();
  Weights(rest + "@");
}

TEST_F(TrainSavingTest, ARunThatHasEndedLeavesNoLock) {
  SluiceProcess first(Arguments("--steps 1000000 --save @ --save-every 1"));
  ASSERT_TRUE(first.WaitForOutput("\"checkpoint\"")) << first.Wait().err;
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait().exit_code, kExitInterrupted);
  EXPECT_EQ(ReadBytes(save_ + "/.sluice/lock"), "");
  Weights(absl::StrCat("--resume @ --save @ --steps ", LatestStep() + 1));
}

// Of the same length, as an editor or a copy over them would leave them.
TEST_F(TrainSavingTest, DataThatChangeDuringTheRunEndIt) {
  const std::string text = folder_ / "text";
  const std::string before = ReadBytes(text);
  SluiceProcess run(Arguments("--steps 1000000 --save @ --save-every 20"));
  ASSERT_TRUE(run.WaitForOutput("\"checkpoint\"")) << run.Wait().err;
  run.Signal(SIGSTOP);
  const int64_t last = LatestStep();
  std::fstream(text) << std::string(before.size(), 'x');  // in place, which WriteBytes is not
  run.Signal(SIGCONT);
  const ProcessResult ended = run.Wait();
  EXPECT_EQ(ended.exit_code, kExitBadInput) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("the data changed since the run began: " + text +
                                         " has been written to since it was opened"),
                               HasSubstr("step-"), HasSubstr("renaming")));
  EXPECT_LE(LatestStep(), last + 20) << "one save may have been under way";
  // The checkpoint names the data that it was trained on.
  EXPECT_THAT(Refusal(absl::StrCat("--resume @ --steps ", LatestStep() + 1)),
              AllOf(HasSubstr("the data's fingerprint (saved "),
                    HasSubstr("): " + text + " has changed since then; give the saved ones")));
  WriteBytes(text, before);
  Weights(absl::StrCat("--resume @ --save @ --steps ", LatestStep() + 1));
}

TEST_F(TrainSavingTest, AnotherRunsCheckpointsAreKept) {
  const std::string old = Weights("--steps 4 --save @ --save-every 2");
  for (const char* more : {"", " --seed 2 --save-every 1", " --init @/latest"}) {
    EXPECT_THAT(Refusal(absl::StrCat("--steps 6 --save @", more)),
                AllOf(HasSubstr("another run"), HasSubstr("latest -> step-00000004"),
                      HasSubstr("--resume " + save_), HasSubstr("--overwrite")));
  }
  Weights(absl::StrCat("--steps 2 --save ", folder_ / "other"));
  EXPECT_THAT(Refusal(absl::StrCat("--steps 6 --save @ --resume ", folder_ / "other")),
              HasSubstr("latest -> step-00000004"));
  EXPECT_THAT(Names(), ElementsAre("latest", "run.toml", "step-00000002", "step-00000004"));
  EXPECT_EQ(Weights("--steps 4 --resume @"), old);
}

TEST_F(TrainSavingTest, ItsOwnRunGoesOn) {
  const std::string whole = Weights("--steps 6");
  Weights("--steps 4 --save @ --save-every 2");
  for (const char* from : {"@/step-00000002", "@/latest", "@"})
    EXPECT_EQ(Weights(absl::StrCat("--steps 6 --save @ --resume ", from)), whole) << from;
}

TEST_F(TrainSavingTest, OverwritingReplacesTheOldRunOnceThereIsANewCheckpoint) {
  Weights("--steps 40 --save @ --save-every 20");
  // Step 20 has the name of an old checkpoint, and the old checkpoint 40 is beyond the new run.
  const std::string fresh = Weights("--steps 20 --seed 7 --save @ --save-every 10 --overwrite");
  EXPECT_THAT(Names(), ElementsAre("latest", "run.toml", "step-00000010", "step-00000020"));
  EXPECT_EQ(Weights("--steps 20 --seed 7 --resume @"), fresh);
  EXPECT_EQ(Weights("--steps 20 --seed 7"), fresh);
}

TEST_F(TrainSavingTest, OverwritingKeepsTheOldRunUntilThen) {
  const std::string old = Weights("--steps 4 --save @ --save-every 2");
  SluiceProcess process(Arguments("--steps 1000000 --seed 7 --save @ --overwrite"));
  ASSERT_TRUE(process.WaitForOutput("\"step\":9,")) << process.Wait().err;
  process.Signal(SIGKILL);
  process.Wait();
  EXPECT_EQ(Weights("--steps 4 --save @ --resume @"), old);
  EXPECT_THAT(Names(), ElementsAre("latest", "run.toml", "step-00000002", "step-00000004"));
}

// `latest` may be lost, or lead to a step that is.
TEST_F(TrainSavingTest, WithoutItsNewestStepARunGoesOnFromTheOneBefore) {
  const std::string whole = Weights("--steps 6");
  for (const bool has_link : {true, false}) {
    for (const char* from : {"--resume @", "--resume @/latest", "--resume-or-start @"}) {
      fs::remove_all(save_);
      Weights("--steps 4 --save @ --save-every 2 --keep all");
      fs::remove_all(save_ + "/step-00000004");
      if (!has_link) fs::remove(save_ + "/latest");
      const ProcessResult result = Run(absl::StrCat("--steps 6 --save @ ", from));
      EXPECT_EQ(result.exit_code, kExitDone) << from << result.err;
      EXPECT_EQ(LastLine(result.out).value("weights_hash", ""), whole) << from;
      EXPECT_THAT(result.err, AllOf(HasSubstr("going on from " + save_ + "/step-00000002 instead"),
                                    HasSubstr(has_link ? "step-00000004/state.json is missing"
                                                       : "has no checkpoint 'latest'")));
    }
  }
}

TEST_F(TrainSavingTest, ARunGoesOnSavingWhereItGoesOnFrom) {
  const std::string whole = Weights("--steps 4");
  EXPECT_EQ(Weights("--steps 2 --resume-or-start @ --save-every 1 --keep 1"), Weights("--steps 2"));
  EXPECT_THAT(Names(), ElementsAre("latest", "run.toml", "step-00000002"));
  EXPECT_THAT(ReadBytes(save_ + "/run.toml"), HasSubstr("save = \"" + save_ + "\""));
  fs::remove(save_ + "/run.toml");
  Weights("--steps 3 --resume @ --no-save");
  Weights("--steps 3 --resume @/step-00000002");
  EXPECT_EQ(LatestStep(), 2);
  EXPECT_EQ(Weights("--steps 4 --resume @"), whole);
  EXPECT_EQ(LatestStep(), 4);
}

// A launcher starts the same command again and again.
TEST_F(TrainSavingTest, ANewRunsFirstWeightsAreOnlyForItsStart) {
  Weights(absl::StrCat("--steps 1 --save ", folder_ / "first"));
  const std::string init = absl::StrCat(" --init ", folder_ / "first", "/latest");
  for (const char* lora : {"", " --lora r=2"}) {
    const std::string whole = Weights(absl::StrCat("--steps 4", init, lora));
    const std::string again = absl::StrCat(init, lora, " --save @ --resume-or-start @");
    Weights("--steps 2" + again);
    EXPECT_EQ(Weights("--steps 4" + again), whole) << lora;
    fs::remove_all(save_);
  }
  Weights("--steps 1 --save @");
  EXPECT_THAT(Run("--steps 2 --resume @" + init).err, HasSubstr("both say with which weights"));
}

TEST_F(TrainSavingTest, WhatExcludesEachOtherIsRefused) {
  EXPECT_THAT(Refusal("--save-every 1"), HasSubstr("--save-every requires --save"));
  EXPECT_THAT(Refusal("--steps 4 --resume @/nothing"),
              HasSubstr("no checkpoint: cannot open " + save_ + "/nothing"));
  EXPECT_THAT(Refusal("--overwrite"), HasSubstr("--save"));
  Weights("--steps 2 --save @");
  EXPECT_THAT(Refusal("--steps 4 --save @ --resume @ --overwrite"), HasSubstr("one of the two"));
  EXPECT_THAT(Refusal("--steps 4 --save @/none --resume @/nothing"), HasSubstr(save_ + "/nothing"));
  EXPECT_THAT(Names(), Not(testing::Contains("none")));
}

}  // namespace
}  // namespace sluice
