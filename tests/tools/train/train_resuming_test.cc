// --resume continues with the hyper-parameters of the checkpoint, and values that are not finite
// are neither saved nor resumed.

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class TrainResumingTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteText(folder_ / "text"); }

  ProcessResult Run(const std::string& more) const {
    return RunSluice(
        Words(absl::StrCat("train --json --data ", folder_ / "text", " ", WithTinyRun(more))));
  }
  // Runs to a normal end.
  ProcessResult Done(const std::string& more) const {
    ProcessResult result = Run(more);
    EXPECT_EQ(result.exit_code, kExitDone) << more << "\n" << result.err;
    return result;
  }
  static Json Summary(const ProcessResult& result) { return LastLine(result.out); }
  static std::string Hash(const ProcessResult& result) {
    return Summary(result).value("weights_hash", "");
  }
  std::string Saved(int step) const {
    return absl::StrCat(folder_ / "out", "/step-0000000", step, " ");
  }

  TempFolder folder_;
};

constexpr char kRecipe[] =
    "--lr 4e-3 --warmup 3 --lr-schedule cosine --weight-decay 0.3 --clip 0.4";

TEST_F(TrainResumingTest, ForgottenFlagsAreTheCheckpoints) {
  const std::string out = absl::StrCat(" --steps 6 --save-every 3 --save ", folder_ / "out");
  for (const std::string optimizer : {"adamw", "sgd"}) {
    const std::string kind = " --optimizer " + optimizer;
    const std::string recipe =
        absl::StrCat(kRecipe, kind, optimizer == "sgd" ? " --momentum 0.5" : "");
    const std::string whole = Hash(Done(recipe + out));
    ASSERT_NE(whole, "");
    for (const std::string& again :
         {recipe, kind, kind + " --stages 1 --lr 4e-3 --warmup 3 --lr-schedule cosine"}) {
      const ProcessResult resumed =
          Done(absl::StrCat(again, " --steps 6 --no-save --resume ", Saved(3)));
      EXPECT_EQ(Hash(resumed), whole) << again;
      EXPECT_EQ(resumed.err, "") << again;
    }
    fs::remove_all(folder_ / "out");
  }
}

TEST_F(TrainResumingTest, ACosineGoesOnToItsEnd) {
  const std::string whole =
      Hash(Done(absl::StrCat(kRecipe, " --steps 6 --save-every 3 --save ", folder_ / "out")));
  const std::string tiny = WithTinyRun("--steps");  // all flags except a number of steps
  const std::string flags = tiny.substr(std::string("--steps").size());
  const ProcessResult resumed = RunSluice(Words(absl::StrCat(
      "train --json --data ", folder_ / "text", flags, " --no-save --resume ", Saved(3))));
  EXPECT_EQ(resumed.exit_code, kExitDone) << resumed.err;
  EXPECT_EQ(resumed.err, "");
  EXPECT_EQ(Summary(resumed)["steps"], 6);
  EXPECT_EQ(Hash(resumed), whole);
}

TEST_F(TrainResumingTest, EachDifferenceIsALine) {
  Done(absl::StrCat(kRecipe, " --steps 6 --save-every 3 --save ", folder_ / "out"));
  const std::map<std::string, std::string> lines = {
      {"--lr 1e-3", "lr 0.004 in the checkpoint, 0.001 given: going on with 0.001"},
      {"--clip 0", "clip 0.4 in the checkpoint, 0 given: going on with 0"},
      {"--weight-decay 0.1", "weight-decay 0.3 in the checkpoint, 0.1 given: going on with 0.1"},
      {"--warmup 0", "warmup 3 in the checkpoint, 0 given: going on with 0"},
      {"--lr-schedule constant",
       "lr-schedule cosine in the checkpoint, constant given: going on with constant"},
      {"--steps 9", "steps 6 in the checkpoint, 9 given: going on along a cosine of 9"}};
  for (const auto& [flag, line] : lines) {
    const std::string steps = flag == "--steps 9" ? "" : " --steps 6";
    const ProcessResult resumed = Done(absl::StrCat(flag, steps, " --no-save --resume ", Saved(3)));
    EXPECT_EQ(resumed.err, absl::StrCat("sluice: ", line, "\n"));
  }
  const ProcessResult two = Done("--lr 1e-3 --clip 2 --steps 6 --no-save --resume " + Saved(3));
  EXPECT_EQ(std::count(two.err.begin(), two.err.end(), '\n'), 2) << two.err;
}

TEST_F(TrainResumingTest, OtherDataAreNamed) {
  Done(absl::StrCat("--steps 3 --save ", folder_ / "out"));
  const std::string other = folder_ / "other";
  WriteBytes(other, ReadBytes(folder_ / "text") + "more");
  const ProcessResult refused = RunSluice(Words(absl::StrCat(
      "train --data ", other, WithTinyRun(" --steps 6 --no-save"), " --resume ", Saved(3))));
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err,
              HasSubstr(absl::StrCat("): of ", folder_ / "text", " then, of ", other, " now; ")));
}

// A directory means its newest checkpoint that is whole; one that is named is that one.
TEST_F(TrainResumingTest, TheNewestWholeCheckpointIsTaken) {
  const std::string out = folder_ / "out";
  const std::string save = " --save " + out;
  const std::string whole = Hash(Done("--steps 6"));
  Done("--steps 4 --save-every 1 --keep 3" + save);
  const std::string damaged = out + "/step-00000004/model.safetensors";
  std::string bytes = ReadBytes(damaged);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteBytes(damaged, bytes);
  const ProcessResult named = Run("--steps 6 --resume " + Saved(4));
  EXPECT_EQ(named.exit_code, kExitBadInput);
  EXPECT_THAT(named.err, HasSubstr("the newest good checkpoint is " + out + "/step-00000003"));
  for (const std::string& directory : {out, out + "/latest", out + "/"}) {
    const ProcessResult resumed = Done("--steps 6 --no-save --resume " + directory);
    EXPECT_EQ(Hash(resumed), whole);
    EXPECT_THAT(resumed.err,
                AllOf(HasSubstr(damaged + " is damaged: its checksum is "),
                      HasSubstr("; going on from "), HasSubstr("step-00000003 instead\n")));
    EXPECT_EQ(std::count(resumed.err.begin(), resumed.err.end(), '\n'), 1) << resumed.err;
  }
  // What goes on from there replaces the damaged one.
  EXPECT_EQ(Hash(Done("--steps 6 --save-every 1 --resume-or-start " + out + save)), whole);
  EXPECT_EQ(Done("--steps 6 --no-save --resume " + Saved(5)).err, "");
}

TEST_F(TrainResumingTest, StartsWhereThereIsNothingToResume) {
  const std::string out = folder_ / "out";
  const std::string flags = absl::StrCat(" --resume-or-start ", out, " --save ", out);
  const ProcessResult first = Done("--steps 3" + flags);
  EXPECT_EQ(Hash(first), Hash(Done("--steps 3")));
  const ProcessResult second = Done("--steps 6" + flags);
  EXPECT_EQ(Hash(second), Hash(Done("--steps 6")));
  // Checkpoints without a newest one are not nothing.
  fs::remove(out + "/latest");
  const ProcessResult lost = Run("--steps 6" + flags);
  EXPECT_EQ(Hash(lost), Hash(second));
  EXPECT_THAT(lost.err, HasSubstr("has no checkpoint 'latest'; going on from "));
  EXPECT_EQ(Run("--resume-or-start x --resume y").exit_code, kExitBadInput);
}

// As a command does that is given again whenever its run was ended: the run may have removed the
// step with which it began.
TEST_F(TrainResumingTest, AStepThatTheRunHasRemovedMeansItsNewest) {
  const std::string out = folder_ / "out";
  const std::string save = absl::StrCat(" --save-every 1 --keep 1 --save ", out);
  Done("--steps 4" + save);
  const ProcessResult again =
      Done(absl::StrCat("--steps 6", save, " --resume-or-start ", Saved(2)));
  EXPECT_EQ(Hash(again), Hash(Done("--steps 6")));
  EXPECT_THAT(again.err, AllOf(HasSubstr("step-00000002 is gone"),
                               HasSubstr("going on from the newest instead\n")));
  const ProcessResult never = Run(absl::StrCat("--steps 9", save, " --resume-or-start ", Saved(8)));
  EXPECT_EQ(never.exit_code, kExitBadInput);
  EXPECT_THAT(never.err, AllOf(HasSubstr("there is no " + out + "/step-00000008"),
                               HasSubstr("the newest in " + out + " is step-00000006")));
}

TEST_F(TrainResumingTest, KeepsSoManyAndSaysWhatItRemoves) {
  const std::string save = absl::StrCat(" --steps 5 --save-every 1 --save ", folder_ / "out");
  for (const auto& [keep, kept] : std::map<std::string, int>{{"1", 1}, {"3", 3}, {"all", 5}}) {
    const ProcessResult result = Done(absl::StrCat("--keep ", keep, save));
    int removed = 0;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(result.out, '\n'))) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("removed")) {
        for (const std::string path : json["removed"]) {
          EXPECT_FALSE(fs::exists(path)) << path;
          ++removed;
        }
      }
    }
    EXPECT_EQ(removed, 5 - kept) << keep;
    for (int step = 1; step <= 5; ++step) {
      EXPECT_EQ(fs::exists(absl::StrCat(folder_ / "out", "/step-0000000", step)), step > 5 - kept);
    }
    fs::remove_all(folder_ / "out");
  }
  for (const std::string wrong : {"0", "-1", "some", "1.5", "99999999999"}) {
    const ProcessResult result = Run(absl::StrCat("--keep ", wrong, save));
    EXPECT_EQ(result.exit_code, kExitBadInput) << wrong;
    EXPECT_THAT(result.err, HasSubstr("--keep " + wrong + ": expected a whole number"));
  }
}

TEST_F(TrainResumingTest, AChangeOfTheRuleOfUpdatesIsRefused) {
  const std::string shape = "--micro-batches 4 --steps 2 ";
  Done(absl::StrCat(shape, "--save ", folder_ / "out"));
  const ProcessResult refused =
      Run(absl::StrCat(shape, "--schedule pipedream --resume ", folder_ / "out"));
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("when weights are updated, --schedule (saved at a flush"),
                    HasSubstr("--init")));
  fs::remove_all(folder_ / "out");
  Done(absl::StrCat(shape, "--schedule pipedream --save ", folder_ / "out"));
  const ProcessResult other =
      Run(absl::StrCat(shape, "--schedule 1f1b --resume ", folder_ / "out"));
  EXPECT_EQ(other.exit_code, kExitBadInput);
  EXPECT_THAT(other.err, HasSubstr("(saved without a flush, as pipedream, given at a flush"));
}

// A flush changes the bits, so there must be none that the whole run did not have.
TEST_F(TrainResumingTest, WithoutAFlushACosineGoesOnWithoutAPause) {
  const std::string run = "--schedule pipedream --lr-schedule cosine ";
  const std::string whole =
      Hash(Done(absl::StrCat(run, "--steps 204 --save-every 102 --save ", folder_ / "out")));
  const std::string tiny = WithTinyRun(run + "--steps").substr(run.size());
  const std::string flags = tiny.substr(std::string("--steps").size());
  const ProcessResult resumed =
      RunSluice(Words(absl::StrCat("train --json --data ", folder_ / "text ", run, flags,
                                   " --resume ", folder_ / "out", "/step-00000102")));
  EXPECT_EQ(resumed.exit_code, kExitDone) << resumed.err;
  EXPECT_EQ(Summary(resumed)["steps"], 204);
  EXPECT_EQ(Hash(resumed), whole);
}

// The bytes of every file below a folder, and where its links lead.
std::map<std::string, std::string> Contents(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    contents[entry.path()] = entry.is_symlink()     ? fs::read_symlink(entry.path()).string()
                             : entry.is_directory() ? ""
                                                    : ReadBytes(entry.path());
  }
  return contents;
}

// The first update of this run makes weights infinite.
constexpr char kOverflows[] = " --lr 3e38 --weight-decay 1e3 ";

TEST_F(TrainResumingTest, WhatIsNotFiniteIsNeverSaved) {
  const std::string out = folder_ / "out";
  Done("--steps 4 --save-every 2 --save " + out);
  const auto before = Contents(out);
  const std::string resumed = absl::StrCat(" --save ", out, " --resume ", out, kOverflows);
  for (const std::string& how :
       {absl::StrCat("--steps 5", resumed), absl::StrCat("--steps 6 --save-every 1", resumed)}) {
    const ProcessResult result = Run(how);
    EXPECT_EQ(result.exit_code, kExitBadInput) << how;
    EXPECT_THAT(
        result.err,
        AllOf(HasSubstr("after step 5 the values of transformer.wte.weight (rank 0, stage 0) "
                        "are not all finite, so they are not saved"),
              HasSubstr("the newest good checkpoint is " + out + "/step-00000004")));
    EXPECT_THAT(result.out, Not(HasSubstr("done")));
    EXPECT_EQ(Contents(out), before) << how;
  }
  // Between two saves, the loss of the next step shows it.
  const ProcessResult later = Run("--steps 8 --save-every 8" + resumed);
  EXPECT_EQ(later.exit_code, kExitBadInput);
  EXPECT_THAT(later.err, AllOf(HasSubstr("step 6: the loss is"),
                               HasSubstr("weights are as before this step, when the values of "),
                               HasSubstr("were not all finite"), HasSubstr("/step-00000004")));
  EXPECT_EQ(Contents(out), before);
  EXPECT_EQ(Run("--steps 5 --resume " + out).exit_code, kExitDone);
}

TEST_F(TrainResumingTest, ARunThatSavesNothingIsLookedAtToo) {
  const ProcessResult result = Run(absl::StrCat("--steps 1", kOverflows));
  EXPECT_EQ(result.exit_code, kExitBadInput);
  EXPECT_THAT(result.err, HasSubstr("after step 1 the values of transformer.wte.weight"));
  EXPECT_THAT(result.out, Not(HasSubstr("done")));
}

}  // namespace
}  // namespace sluice
