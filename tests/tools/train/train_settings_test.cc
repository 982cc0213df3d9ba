// `train --config FILE`, and run.toml beside the checkpoints of a run, with which --resume alone is
// enough.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr char kRun[] = "--steps 6 --save-every 2 --keep all --lr 4e-3 --lr-schedule cosine";

class TrainSettingsTest : public TrainCommandTest {
 protected:
  // A run of six steps that has lost its last checkpoint, in `name`; its losses and its weights.
  std::vector<std::string> Interrupted(const std::string& name, const std::string& more = "") {
    const fs::path out = folder_ / name;
    const ProcessResult whole = Run(absl::StrCat(kRun, " --json ", more, " --save ", out.string()));
    EXPECT_EQ(whole.exit_code, kExitDone) << whole.err;
    fs::remove_all(out / "step-00000006");
    fs::remove(out / "latest");
    fs::create_directory_symlink("step-00000004", out / "latest");
    return BitsOf(whole);
  }
  // The losses of steps 5 and 6, and the hash of the weights.
  static std::vector<std::string> BitsOf(const ProcessResult& result) {
    std::vector<std::string> bits;
    for (const absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.value("step", 0) > 4) bits.push_back(json["loss_hex"]);
      if (json.value("done", false)) bits.push_back(json["weights_hash"]);
    }
    return bits;
  }
  static ProcessResult Sluice(const std::string& command) { return RunSluice(Words(command)); }
  std::string Settings(const std::string& name) const {
    return ReadBytes(absl::StrCat(folder_ / name, "/run.toml"));
  }
  std::string Write(const std::string& text) const {
    WriteBytes(folder_ / "config.toml", text);
    return folder_ / "config.toml";
  }
};

TEST_F(TrainSettingsTest, ResumeAloneIsEnough) {
  for (const char* more : {"", " --stages 1", " --schedule gpipe --micro-batch-size 2"}) {
    const std::string out = folder_ / "out";
    const std::vector<std::string> whole = Interrupted("out");
    ASSERT_EQ(whole.size(), 3u);
    const ProcessResult resumed = Sluice(absl::StrCat("train --json --resume ", out, more));
    EXPECT_EQ(resumed.exit_code, kExitDone) << resumed.err;
    EXPECT_EQ(resumed.err, "");
    EXPECT_EQ(BitsOf(resumed), whole) << more;
    EXPECT_TRUE(fs::exists(out + "/step-00000006")) << "it goes on saving";
    fs::remove_all(out);
  }
}

// As a run leaves it that is killed before its first checkpoint.
TEST_F(TrainSettingsTest, ARunWithoutACheckpointIsBegunAgain) {
  const std::vector<std::string> whole = Interrupted("out");
  const std::string out = folder_ / "out";
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.path().filename() != "run.toml") fs::remove_all(entry.path());
  }
  const ProcessResult refused = Sluice("train --resume " + out);
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr(out + " has no checkpoint yet, only the run.toml of a run"));
  EXPECT_THAT(refused.err, HasSubstr("begin that run again with --resume-or-start " + out + ","));
  const ProcessResult begun = Sluice("train --json --resume-or-start " + out);
  EXPECT_EQ(BitsOf(begun), whole) << begun.err;
}

TEST_F(TrainSettingsTest, ADirectoryMayBeMoved) {
  const std::vector<std::string> whole = Interrupted("out");
  fs::rename(folder_ / "out", folder_ / "moved");
  const ProcessResult resumed =
      Sluice(absl::StrCat("train --json --resume-or-start ", folder_ / "moved"));
  EXPECT_EQ(BitsOf(resumed), whole) << resumed.err;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_TRUE(fs::exists(absl::StrCat(folder_ / "moved", "/step-00000006")));
  EXPECT_THAT(Settings("moved"), HasSubstr(absl::StrCat("save = \"", folder_ / "moved")));
}

TEST_F(TrainSettingsTest, ADirectoryThatIsMovedWhileItRunsIsMadeAnewAsAWhole) {
  const fs::path out = folder_ / "out";
  const fs::path moved = folder_ / "moved";
  SluiceProcess run(Arguments("--steps 1000000 --save-every 20 --json --save " + out.string()));
  ASSERT_TRUE(run.WaitForOutput("\"checkpoint\"")) << run.Wait().err;
  fs::rename(out, moved);
  while (!fs::exists(out / "latest")) absl::SleepFor(absl::Milliseconds(1));
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().exit_code, kExitInterrupted);
  EXPECT_EQ(Settings("out"), Settings("moved"));
}

TEST_F(TrainSettingsTest, EveryProcessReadsIt) {
  const std::vector<std::string> whole = Interrupted("out");
  const ProcessResult resumed =
      Sluice(absl::StrCat("launch --processes 2 -- train --json --resume ", folder_ / "out"));
  EXPECT_EQ(resumed.exit_code, kExitDone) << resumed.err;
  EXPECT_EQ(BitsOf(resumed), whole);
}

TEST_F(TrainSettingsTest, OneStepThatIsNamedIsNotContinuedInPlace) {
  const std::string out = folder_ / "out";
  const std::vector<std::string> whole = Interrupted("out");
  for (const std::string& from : {out + "/step-00000002", out + "/step-00000004/", out}) {
    const std::string no = from == out ? " --no-save" : "";
    const ProcessResult resumed = Sluice(absl::StrCat("train --json --resume ", from, no));
    EXPECT_EQ(BitsOf(resumed), whole) << from << resumed.err;
    EXPECT_FALSE(fs::exists(out + "/step-00000006")) << from;
  }
}

// The first weights are no longer needed, and --plan gives way to --stages.
TEST_F(TrainSettingsTest, OtherFlagsGiveWayToTypedOnes) {
  const ProcessResult first = Run("--steps 1 --save " + folder_ / "first");
  ASSERT_EQ(first.exit_code, kExitDone) << first.err;
  const std::vector<std::string> whole = Interrupted(
      "out", absl::StrCat("--init ", folder_ / "first", "/latest --partition 0-1,2-3 --mirror"));
  fs::remove_all(folder_ / "first");
  const ProcessResult resumed =
      Sluice(absl::StrCat("train --json --mirror=false --stages 1 --resume ", folder_ / "out"));
  EXPECT_EQ(BitsOf(resumed), whole) << resumed.err;
  EXPECT_THAT(Settings("out"), AllOf(HasSubstr("mirror = false\n"), HasSubstr("stages = 1\n"),
                                     Not(HasSubstr("partition")), HasSubstr("/first/latest")));
}

// What the plan said of a step stays, though the plan gives way.
TEST_F(TrainSettingsTest, ARunByAPlanGoesOnOnOtherRanks) {
  const std::string plan = folder_ / "plan.json", out = folder_ / "out";
  for (const std::string more :
       {"", "--layers 2 --dim 16 --heads 2", "--lora r=4", "--devices 4 --data-parallel 2"}) {
    const bool of_flags = absl::StrContains(more, "--layers");
    const ProcessResult planned = Sluice(absl::StrCat(
        "plan char-gpt --seq 16 --device h200 --micro-batch-size 1 --micro-batches 4 --dtype bf16 ",
        "--format json -o ", plan, " ", more, of_flags ? "" : " --layers 2 --dim 16 --heads 2",
        absl::StrContains(more, "--devices") ? "" : " --devices 2"));
    ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
    const ProcessResult whole = Sluice(absl::StrCat(
        "train --json --no-pin --eval-micro-batches 1 --data ", folder_ / "text", " --plan ", plan,
        of_flags ? " --model char-gpt --seq 16 " + more : "", " ", kRun, " --save ", out));
    ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
    const std::string settings = Settings("out");
    for (const std::string how : {"", " --stages 1", " --stages 3", " --partition 0-2,3"}) {
      const ProcessResult resumed =
          Sluice(absl::StrCat("train --json --resume ", out, "/step-00000004", how));
      EXPECT_EQ(resumed.exit_code, kExitDone) << more << how << resumed.err << settings;
      EXPECT_EQ(BitsOf(resumed), BitsOf(whole)) << more << how;
    }
    // The step of a plan with two replicas has eight micro-batches, in two sums.
    const bool replicated = absl::StrContains(more, "--data-parallel");
    const ProcessResult divided = Sluice(
        absl::StrCat("train --json --resume ", out, "/step-00000004",
                     replicated ? " --data-parallel 1 --micro-batches 8" : " --data-parallel 2"));
    if (replicated) {
      EXPECT_EQ(BitsOf(divided), BitsOf(whole)) << divided.err;
    } else {
      EXPECT_THAT(divided.err, HasSubstr("the number of micro-batches (saved 4, given 8)"));
    }
    fs::remove_all(out);
  }
}

// As programs before this one wrote it, which kept the plan alone.
TEST_F(TrainSettingsTest, TheFlagsOfAnOldRunByAPlan) {
  const std::string plan = folder_ / "plan.json", out = folder_ / "out";
  const ProcessResult planned = Sluice(absl::StrCat(
      "plan char-gpt --layers 2 --dim 16 --heads 2 --seq 16 --devices 2 --device h200 ",
      "--micro-batch-size 1 --micro-batches 4 --dtype fp32 --format json -o ", plan));
  ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
  const std::string flags = absl::StrCat("--no-pin --eval-micro-batches 1 --data ",
                                         folder_ / "text", " --plan ", plan, " ", kRun);
  const ProcessResult whole = Sluice(absl::StrCat("train --json ", flags, " --save ", out));
  ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
  WriteBytes(
      out + "/run.toml",
      absl::StrCat("# The flags of the run that saves here, by 'sluice train'.\n", "data = \"",
                   folder_ / "text", "\"\nplan = \"", plan,
                   "\"\nmicro-batches = 2\nsteps = 6\neval-micro-batches = 1\nno-pin = true\n",
                   "save = \"", out, "\"\n"));
  const ProcessResult resumed =
      Sluice(absl::StrCat("train --json --resume ", out, "/step-00000004"));
  EXPECT_EQ(BitsOf(resumed), BitsOf(whole)) << resumed.err;
}

// What a checkpoint says itself is kept for a run that begins anew; what is typed replaces it.
TEST_F(TrainSettingsTest, AResumedRunKeepsWhatItsCheckpointSays) {
  const std::string out = folder_ / "out";
  Interrupted("out", "--optimizer sgd --momentum 0.5 --warmup 2 --clip 0.5 --weight-decay 0");
  const std::string before = Settings("out");
  const std::pair<const char*, const char*> rates[] = {{"", "0.004"}, {" --lr 2e-3", "2e-3"}};
  for (const auto& [typed, rate] : rates) {
    EXPECT_EQ(Sluice(absl::StrCat("train --resume ", out, typed)).exit_code, kExitDone) << typed;
    EXPECT_EQ(Settings("out"),
              absl::StrReplaceAll(before, {{"lr = 4e-3", absl::StrCat("lr = ", rate)}}));
  }
}

// A run that goes on from one checkpoint of a directory does not save there.
TEST_F(TrainSettingsTest, SaysThatNothingWillBeSaved) {
  const std::string out = folder_ / "out";
  Interrupted("out");
  const std::string command = absl::StrCat("train --resume ", out, "/latest");
  const ProcessResult unsaved = Sluice(command);
  EXPECT_EQ(unsaved.exit_code, kExitDone) << unsaved.err;
  EXPECT_THAT(unsaved.err, HasSubstr("note: nothing will be saved, since " + out +
                                     "/latest is one checkpoint; give --save DIR, or --resume"));
  EXPECT_FALSE(fs::exists(out + "/step-00000006"));
  EXPECT_EQ(Sluice(command + " --no-save").err, "");
  EXPECT_EQ(Sluice(absl::StrCat(command, " --save ", folder_ / "other")).err, "");
}

TEST_F(TrainSettingsTest, PathsAreWhole) {
  const std::string text = fs::relative(folder_ / "text");
  Sluice(absl::StrCat("train --data ", text, " --save ", folder_ / "out", WithTinyRun(" ")));
  EXPECT_THAT(Settings("out"), HasSubstr(absl::StrCat("data = \"", folder_ / "text", "\"\n")));
}

TEST_F(TrainSettingsTest, WordsInBracketsAreKeptLetterForLetter) {
  fs::copy_file(folder_ / "text", folder_ / "[text]");
  const ProcessResult run = Sluice(absl::StrCat("train --data ", folder_ / "[text]", " --save ",
                                                folder_ / "[out]", WithTinyRun(" --steps 1")));
  EXPECT_EQ(run.exit_code, kExitDone) << run.err;
  EXPECT_THAT(Settings("[out]"),
              AllOf(HasSubstr(absl::StrCat("data = \"", folder_ / "[text]", "\"\n")),
                    HasSubstr(absl::StrCat("save = \"", folder_ / "[out]", "\"\n"))));
}

// Neither TOML nor YAML has such texts.
TEST_F(TrainSettingsTest, WhatIsNotUtf8MustBeTypedAgain) {
  const std::string data = folder_ / "te\xffxt";
  fs::copy_file(folder_ / "text", data);
  const std::string out = folder_ / "out";
  Sluice(absl::StrCat("train --data ", data, " --save ", out, WithTinyRun(" --steps 1")));
  EXPECT_THAT(Settings("out"), HasSubstr("\n# data is not UTF-8: --resume needs it typed\n"));
  const ProcessResult untyped = Sluice(absl::StrCat("train --steps 2 --resume ", out));
  EXPECT_EQ(untyped.exit_code, kExitBadInput) << untyped.err;
  EXPECT_THAT(untyped.err, HasSubstr("--data"));
  const ProcessResult typed =
      Sluice(absl::StrCat("train --steps 2 --resume ", out, " --data ", data));
  EXPECT_EQ(typed.exit_code, kExitDone) << typed.err;
}

TEST_F(TrainSettingsTest, ARunThatCouldNotBeginLeavesTheFlagsOfTheLastOne) {
  Interrupted("out");
  const std::string before = Settings("out");
  for (const char* refused : {" --seed 2", " --lr 3e38 --weight-decay 1e3 --steps 9"}) {
    EXPECT_NE(Sluice(absl::StrCat("train --resume ", folder_ / "out", refused)).exit_code, 0);
    EXPECT_EQ(Settings("out"), before) << refused;
  }
}

TEST_F(TrainSettingsTest, StartsAnewByTheFlagsThatAreThere) {
  const std::vector<std::string> whole = Interrupted("out");
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    if (entry.path().filename() != "run.toml") fs::remove_all(entry.path());
  }
  const ProcessResult started =
      Sluice(absl::StrCat("train --json --resume-or-start ", folder_ / "out"));
  EXPECT_EQ(BitsOf(started), whole) << started.err;
}

TEST_F(TrainSettingsTest, TheFileOfAPersonIsNotReplaced) {
  fs::create_directory(folder_ / "out");
  const std::string mine = absl::StrCat(folder_ / "out", "/run.toml");
  WriteBytes(mine, "steps = 2\n");
  const ProcessResult refused = Run("--save " + folder_ / "out");
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr(mine + " is not one that sluice wrote"));
  EXPECT_EQ(ReadBytes(mine), "steps = 2\n");
}

TEST_F(TrainSettingsTest, AConfigIsAsGoodAsFlags) {
  const Json typed = Summary("--lr 4e-3 --schedule gpipe --freeze *.ln_1.*,*.ln_2.*");
  const std::string file = Write(absl::StrCat(
      "data = \"", folder_ / "text", "\"\nlayers = 2\ndim = 16\nheads = 2\nseq = 16\n",
      "stages = 2 # a comment\nmicro-batch-size = 2\nmicro-batches = 2\nsteps = 9\nlr = 0.004\n",
      "schedule = 'gpipe'\nno-pin = true\nfreeze = [\"*.ln_1.*\",\n  \"*.ln_2.*\"]\n"));
  const std::string command = "train --json --eval-micro-batches 1 --steps 2 --config ";
  const ProcessResult read = Sluice(command + file);
  EXPECT_EQ(read.exit_code, kExitDone) << read.err;
  EXPECT_EQ(LastLine(read.out)["weights_hash"], typed["weights_hash"]);
}

// A flag that takes no value may be given to say that it is not meant.
TEST_F(TrainSettingsTest, WhatAFlagSaysCountsNotThatItIsThere) {
  const std::string out = folder_ / "out", other = folder_ / "other";
  const std::vector<std::string> whole = Interrupted("out");
  const ProcessResult resumed = Sluice(absl::StrCat("train --json --no-save=false --resume ", out));
  EXPECT_EQ(BitsOf(resumed), whole) << resumed.err;
  EXPECT_TRUE(fs::exists(out + "/step-00000006"));

  const std::string run =
      absl::StrCat("train --data ", folder_ / "text", WithTinyRun(" --steps 1"), " --config ");
  const auto saves = [&](const std::string& text, const std::string& typed) {
    fs::remove_all(other);
    const ProcessResult result = Sluice(absl::StrCat(run, Write(text), typed));
    EXPECT_EQ(result.exit_code, kExitDone) << text << typed << result.err;
    return fs::exists(other);
  };
  const std::string save = absl::StrCat("save = '", other, "'\n");
  EXPECT_TRUE(saves(save + "no-save = false\n", ""));
  EXPECT_TRUE(saves(save + "overwrite = true\n", " --no-save=false"));
  EXPECT_FALSE(saves(save + "overwrite = true\n", " --no-save"));
  EXPECT_FALSE(saves("overwrite = false\n", ""));
  EXPECT_TRUE(saves("no-save = true\n", " --save " + other));
  EXPECT_THAT(Sluice(run + Write("overwrite = true\n")).err,
              HasSubstr("--overwrite requires --save"));
  EXPECT_THAT(Sluice(run + Write(save + "no-save = true\n")).err,
              HasSubstr("--save says where checkpoints go, and --no-save that there are none"));
}

// What a file says of the ranks gives way to what is typed, in whichever way that says it.
TEST_F(TrainSettingsTest, TheTypedShapeOfTheRunGoesBeforeTheFiles) {
  const std::string plan = folder_ / "plan.json";
  const ProcessResult planned = Sluice(absl::StrCat(
      "plan char-gpt --layers 2 --dim 16 --heads 2 --seq 16 --devices 2 --device h200 ",
      "--micro-batch-size 2 --micro-batches 2 --dtype fp32 --format json -o ", plan));
  ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
  struct Case {
    std::string file, typed;
    int stages, ranks;
  };
  const std::string by_plan = "--plan " + plan;
  const Case cases[] = {{"stage-replicas = '2,1'", by_plan, 2, 2},
                        {"stages = 'auto'", by_plan, 2, 2},
                        {"data-parallel = 'auto'", by_plan, 2, 2},
                        {"stages = 1\ndata-parallel = 2", by_plan, 2, 2},
                        {"schedule = 'auto'\nplacement = 'v'", by_plan, 2, 2},
                        {"stages = 'auto'\ndata-parallel = 'auto'", "--partition 0-3", 1, 1},
                        {"stages = 2\ndata-parallel = 2", "--partition 0-1,2-3", 2, 4},
                        {"stages = 'auto'", "--stage-replicas 2,1", 2, 3},
                        {"data-parallel = 2", "--stage-replicas 2,1", 2, 3},
                        {"data-parallel = 'auto'", "--stage-replicas 2,1", 2, 3},
                        {"stages = 2\npartition = '0-1,2-3'", "--data-parallel 2", 2, 4},
                        {"stages = 1\npartition = '0-3'", "--data-parallel auto", 1, 1},
                        {"stage-replicas = '2,1'", "--data-parallel auto", 1, 1},
                        {"stage-replicas = '2,1'", "--data-parallel 2", 1, 2},
                        {"stage-replicas = '2,1'", "--data-parallel 1", 2, 3}};
  for (const Case& one : cases) {
    // The commands end at once; before them the run says what it is.
    const ProcessResult run = Sluice(absl::StrCat(
        "train --commands --layers 2 --dim 16 --heads 2 --seq 16 --micro-batch-size 2 --no-pin ",
        "--micro-batches 2 --data ", folder_ / "text", " ", one.typed, " --config ",
        Write(one.file)));
    EXPECT_EQ(run.exit_code, kExitDone) << one.file << " " << one.typed << run.err;
    const Json ready = Json::parse(run.out.substr(0, run.out.find('\n')), nullptr, false);
    const std::string partition = ready.value("partition", "");
    EXPECT_EQ(1 + std::count(partition.begin(), partition.end(), ','), one.stages)
        << one.file << " " << one.typed << run.out;
    EXPECT_EQ(ready.value("ranks", 0), one.ranks) << one.file << " " << one.typed;
  }
}

TEST_F(TrainSettingsTest, PlanTakesAConfigToo) {
  const ProcessResult typed =
      Sluice("plan char-gpt --devices 2 --device h200 --micro-batches 4 --schedule 1f1b");
  const std::string file = Write(
      "model = 'char-gpt'\ndevices = 2\ndevice = 'h200'\n"
      "micro-batches = 8\nschedule = '1f1b'\n");
  const ProcessResult read = Sluice("plan --micro-batches 4 --config " + file);
  EXPECT_EQ(read.exit_code, kExitDone) << read.err;
  EXPECT_EQ(read.out, typed.out);
  EXPECT_THAT(
      Sluice("plan char-gpt --json --devices 4 --device h200 --data-parallel auto --config " +
             Write("partition = '0-2,3-7'"))
          .out,
      HasSubstr("\"partition\": \"0-2,3-7\""));
  EXPECT_THAT(Sluice("plan --config " + Write("devics = 2")).err,
              HasSubstr("'devics' is no flag of 'sluice plan', but 'devices' is"));
}

TEST_F(TrainSettingsTest, WhatIsWrongInAConfigIsNamed) {
  struct Wrong {
    const char* text;
    const char* why;
  };
  constexpr Wrong kWrong[] = {
      {"stags = 2", "'stags' is no flag of 'sluice train', but 'stages' is"},
      {"batch_size = 2",
       "'batch_size' is no flag of 'sluice train', but 'micro-batch-size' and 'micro-batches' are"},
      {"xyzzyxyzzy = 2", "'xyzzyxyzzy' is no flag of 'sluice train'"},
      {"steps = \"1e3\"", "--steps: 1e3 is not a whole number"},
      {"steps = true", "'steps' takes a value, not true or false"},
      {"steps = [1, 2]", "--steps: 1,2 is not a whole number"},
      {"lr = inf", "--lr: inf is not a finite number"},
      {"lr = \"abc\"", "--lr: abc is no number"},
      {"model = \"\"", "--model: the value is empty"},
      {"dtype = \"fp64\"", "--dtype: fp64 not in {fp32,bf16}"},
      {"mirror = 1", "'mirror' takes true or false"},
      {"json = true", "'json' belongs on the command line"},
      {"pack = true\nno-pack = true", "'no-pack' says again what 'pack' says"},
      {"data = text", "is not TOML"},
      {"[train]", "'train' is a table"}};
  for (const Wrong& wrong : kWrong) {
    const std::string file = Write(absl::StrCat("# first line\n", wrong.text, "\n"));
    const ProcessResult result = Sluice("train --data x --config " + file);
    EXPECT_EQ(result.exit_code, kExitBadInput) << wrong.text;
    const int line = absl::StrContains(wrong.text, "\n") ? 3 : 2;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr(absl::StrCat("line ", line, " of ", file)), HasSubstr(wrong.why)));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_THAT(Sluice("train --config " + folder_ / "nowhere").err,
              HasSubstr("--config: cannot open " + folder_ / "nowhere"));
  EXPECT_THAT(Sluice("train --resume " + folder_ / "nowhere").err,
              HasSubstr("--resume: there is no directory " + folder_ / "nowhere"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(
      Sluice("train --resume " + folder_ / "empty").err,
      HasSubstr("has no run.toml that says how the run was started; give its flags, --data"));
}

}  // namespace
}  // namespace sluice
