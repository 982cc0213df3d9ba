// What a run may do in the directory of --save, and what it must leave as it is.
#include "pipeline/checkpoint/directory/run_directory.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/failpoints/failpoints.h"
#include "pipeline/checkpoint/directory/checkpoint_folder.h"
#include "tests/models/data/full_disk.h"
#include "tests/pipeline/checkpoint/checkpoint_fixture.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

class RunDirectoryTest : public CheckpointTest {
 protected:
  using Opened = absl::StatusOr<std::unique_ptr<RunDirectory>>;

  // A new run of a hundred steps that saves every tenth of them.
  SavingRun NewRun() const {
    return {.directory = dir_, .resume = "", .steps = 100, .save_every = 10};
  }
  Opened Resume(const std::string& from) const {
    SavingRun run = NewRun();
    run.resume = from;
    return RunDirectory::Open(run);
  }
  Opened Overwrite() const {
    SavingRun run = NewRun();
    run.overwrite = true;
    return RunDirectory::Open(run);
  }
  static std::string Why(const Opened& opened) {
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition) << opened.status();
    return std::string(opened.status().message());
  }
  std::vector<std::string> OwnNames() const { return NamesIn(dir_ + "/.sluice"); }

  // A folder that another program made.
  std::string Foreign(const std::string& name) const {
    std::string file = absl::StrCat(dir_, "/", name, "/lit_model.pth");
    fs::create_directories(fs::path(file).parent_path());
    WriteBytes(file, name);
    return file;
  }
  // Files that a run must never touch.
  std::vector<std::string> Foreigners() const {
    std::vector<std::string> files;
    for (const char* name :
         {"step-00000001", "step-00000002", "step-00000099", ".saving_for_tax", ".saving",
          ".saving-0123456789ab", ".removing", ".latest", ".sluice/keep", "step-1"}) {
      files.push_back(Foreign(name));
    }
    return files;
  }
};

TEST_F(CheckpointTest, DirectoriesAreMadeWithThoseAboveThem) {
  dir_ = folder_ / "a/b/c";
  Save(1);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000001"));
  EXPECT_THAT(NamesIn(dir_ + "/.sluice"), ElementsAre("format"));
}

TEST_F(RunDirectoryTest, SavingTouchesNothingThatItDidNotWrite) {
  Save(3);
  const std::vector<std::string> foreign = Foreigners();
  WriteBytes(dir_ + "/step-00000004", "a file");
  fs::create_directory_symlink("step-00000003", dir_ + "/step-00000005");
  for (const int64_t step : {10, 20, 30}) Save(step);
  for (const std::string& file : foreign) {
    EXPECT_EQ(absl::StrCat(dir_, "/", ReadBytes(file), "/lit_model.pth"), file);
  }
  EXPECT_EQ(ReadBytes(dir_ + "/step-00000004"), "a file");
  EXPECT_TRUE(fs::is_symlink(dir_ + "/step-00000005"));
  EXPECT_FALSE(fs::exists(dir_ + "/step-00000003")) << "a checkpoint that was overtaken";
  EXPECT_FALSE(fs::exists(dir_ + "/step-00000010"));
  ExpectStep(dir_, 30);
}

TEST_F(RunDirectoryTest, ANameThatIsNotOursIsNotTaken) {
  Save(10);
  const std::string theirs = Foreign("step-00000020");
  const absl::Status status = TrySave(SomeState(20)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(dir_ + "/step-00000020"), HasSubstr("move it away")));
  EXPECT_EQ(ReadBytes(theirs), "step-00000020");
  EXPECT_THAT(OwnNames(), ElementsAre("format"));
  ExpectStep(dir_, 10);
}

TEST_F(RunDirectoryTest, ALatestThatIsNotOursIsNotReplaced) {
  fs::create_directories(dir_);
  for (const bool link : {false, true}) {
    fs::remove(dir_ + "/latest");
    if (link) {
      fs::create_symlink("../elsewhere", dir_ + "/latest");
    } else {
      WriteBytes(dir_ + "/latest", "news");
    }
    for (const absl::Status& status :
         {RunDirectory::Open(NewRun()).status(), TrySave(SomeState(1)).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(dir_ + "/latest is not a link that"));
    }
    EXPECT_THAT(Names(), ElementsAre("latest"));
  }
}

TEST_F(RunDirectoryTest, NamesThatTheRunWillNeedAreLookedAtBefore) {
  Foreign("step-00000020");
  EXPECT_THAT(Why(RunDirectory::Open(NewRun())),
              AllOf(HasSubstr("--save " + dir_), HasSubstr("step-00000020")));
  SavingRun run = NewRun();
  run.save_every = 0;
  EXPECT_TRUE(RunDirectory::Open(run).ok()) << "saves only step 100";
  run.save_every = 3;
  EXPECT_TRUE(RunDirectory::Open(run).ok()) << "never saves step 20";
  run.steps = 20;
  EXPECT_THAT(Why(RunDirectory::Open(run)), HasSubstr("step-00000020"));
  Save(30);
  EXPECT_TRUE(Resume(dir_).ok()) << "is past it";
}

// A cosine goes on to the steps of its checkpoint, unless others are given.
TEST_F(RunDirectoryTest, NamesThatAResumedRunWillNeedAreLookedAtBefore) {
  RunState state = SomeState(30);
  state.hyper_parameters = {{"lr", 1e-3}, {"cosine", 1}, {"steps", 300}};
  ASSERT_TRUE(TrySave(state).ok());
  SavingRun run = NewRun();
  run.resume = dir_;
  run.save_every = 0;
  Foreign("step-00000100");
  EXPECT_TRUE(RunDirectory::Open(run).ok()) << "saves only step 300";
  Foreign("step-00000300");
  EXPECT_THAT(Why(RunDirectory::Open(run)), HasSubstr("step-00000300"));
  run.given.steps = run.steps;
  EXPECT_THAT(Why(RunDirectory::Open(run)), HasSubstr("step-00000100"));
}

TEST_F(RunDirectoryTest, AnOwnFolderThatIsNotOursIsLeftAlone) {
  fs::create_directories(dir_ + "/.sluice");
  WriteBytes(dir_ + "/.sluice/latest", "theirs");
  EXPECT_THAT(Why(RunDirectory::Open(NewRun())),
              AllOf(HasSubstr("--save " + dir_), HasSubstr(dir_ + "/.sluice was not made by")));
  EXPECT_EQ(TrySave(SomeState(1)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadBytes(dir_ + "/.sluice/latest"), "theirs");
  EXPECT_THAT(OwnNames(), ElementsAre("latest"));
  WriteBytes(dir_ + "/.sluice/format", "sluice save directory 2\n");
  EXPECT_THAT(Why(RunDirectory::Open(NewRun())), HasSubstr("this version"));
}

TEST_F(RunDirectoryTest, AnOwnFolderThatWasHalfMadeIsMadeWhole) {
  fs::create_directories(dir_ + "/.sluice");
  EXPECT_TRUE(RunDirectory::Open(NewRun()).ok()) << "without its mark";
  const std::string zeros(24, '\0');  // as some file systems leave a file at a power failure
  for (const std::string& written : {std::string(), std::string("sluice sa"), zeros}) {
    WriteBytes(dir_ + "/.sluice/format", written);
    EXPECT_TRUE(RunDirectory::Open(NewRun()).ok()) << written;
    EXPECT_EQ(ReadBytes(dir_ + "/.sluice/format"), "sluice save directory 1\n");
  }
}

TEST_F(RunDirectoryTest, ASecondRunIsRefusedWhileTheFirstLives) {
  {
    const Opened first = RunDirectory::Open(NewRun());
    ASSERT_TRUE(first.ok()) << first.status();
    const std::string pid = absl::StrCat("process ", getpid(), " on host ");
    EXPECT_THAT(Why(RunDirectory::Open(NewRun())), HasSubstr(pid));
    EXPECT_THAT(Why(Overwrite()), HasSubstr(pid));
    Save(10);
    EXPECT_THAT(Why(Resume(dir_)), HasSubstr(pid));
    ExpectStep(dir_, 10);  // reading needs no lock
  }
  EXPECT_TRUE(Resume(dir_).ok());
}

TEST_F(RunDirectoryTest, AnotherRunsCheckpointsAreNotForANewRun) {
  for (const int64_t step : {10, 20}) Save(step);
  EXPECT_THAT(Why(RunDirectory::Open(NewRun())),
              AllOf(HasSubstr("latest -> step-00000020"), HasSubstr("--resume " + dir_),
                    HasSubstr("--overwrite")));
  fs::remove(dir_ + "/latest");
  EXPECT_THAT(Why(RunDirectory::Open(NewRun())), HasSubstr("newest is step-00000020"));
  EXPECT_THAT(Names(), ElementsAre("step-00000010", "step-00000020"));
}

TEST_F(RunDirectoryTest, GoingOnFromAnyOfItsCheckpointsIsGoingOn) {
  for (const int64_t step : {10, 20}) Save(step);
  for (const std::string from : {"", "/", "/latest", "/step-00000010", "/step-00000020/"}) {
    const Opened opened = Resume(dir_ + from);
    EXPECT_TRUE(opened.ok()) << from << ": " << opened.status();
  }
  fs::create_directory_symlink(dir_, folder_ / "link");
  EXPECT_TRUE(Resume(folder_ / "link").ok());
}

TEST_F(RunDirectoryTest, GoingOnFromElsewhereIsNot) {
  Save(10);
  const std::string other = std::exchange(dir_, folder_ / "mine");
  Save(20);
  EXPECT_THAT(Why(Resume(other)), HasSubstr("latest -> step-00000020"));
  dir_ = folder_ / "new";
  EXPECT_TRUE(Resume(other).ok());
}

TEST_F(RunDirectoryTest, WhereThereIsNothingToResumeNothingIsMade) {
  EXPECT_EQ(Resume(dir_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(RunDirectoryTest, OverwritingAndGoingOnExcludeEachOther) {
  Save(10);
  SavingRun run = NewRun();
  run.overwrite = true;
  run.resume = dir_ + "/latest";
  EXPECT_THAT(Why(RunDirectory::Open(run)), HasSubstr("give one of the two"));
  run.directory = folder_ / "other";
  EXPECT_TRUE(RunDirectory::Open(run).ok());
}

// It has read what it goes on from, which --keep, or somebody, may have removed since.
TEST_F(RunDirectoryTest, ARunThatHasBegunSavesElsewhereWithoutWhatItGoesOnFrom) {
  for (const int64_t step : {10, 20, 30}) Save(step);
  SavingRun run = NewRun();
  run.resume = dir_ + "/step-00000010";
  fs::remove_all(run.resume);
  EXPECT_TRUE(absl::IsNotFound(RunDirectory::Open(run).status()));
  run.has_begun = true;
  for (const bool overwrite : {false, true}) {
    run.overwrite = overwrite;
    run.directory = folder_ / "other";
    EXPECT_TRUE(RunDirectory::Open(run).ok()) << RunDirectory::Open(run).status();
    run.directory = dir_;  // those there are of its own run
    EXPECT_TRUE(RunDirectory::Open(run).ok()) << RunDirectory::Open(run).status();
  }
  run.overwrite = false;
  run.resume = folder_ / "other";
  EXPECT_THAT(Why(RunDirectory::Open(run)), HasSubstr("the checkpoints of another run are there"));
}

// To overwrite means those of another run.
TEST_F(RunDirectoryTest, ARunThatHasBegunDoesNotOverwriteItsOwn) {
  for (const int64_t step : {10, 20}) Save(step);
  SavingRun run = NewRun();
  run.resume = dir_;
  run.overwrite = run.has_begun = true;
  const Opened opened = RunDirectory::Open(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  Save(30, 9);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000020", "step-00000030"));
}

// Checkpoints of the older program: the same files, without .sluice.
TEST_F(RunDirectoryTest, CheckpointsOfAnOlderProgramAreOurs) {
  for (const int64_t step : {10, 20}) Save(step);
  fs::remove_all(dir_ + "/.sluice");
  EXPECT_THAT(Why(RunDirectory::Open(NewRun())), HasSubstr("latest -> step-00000020"));
  ASSERT_TRUE(Resume(dir_).ok());
  Save(30);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000020", "step-00000030"));
}

TEST_F(RunDirectoryTest, ADamagedCheckpointIsStillOurs) {
  for (const int64_t step : {10, 20}) Save(step);
  const std::string state = dir_ + "/step-00000010/state.json";
  WriteBytes(state, ReadBytes(state).substr(0, 100));
  Save(30);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000020", "step-00000030"));
}

TEST_F(RunDirectoryTest, RemovesWhatIsWrong) {
  for (const int64_t step : {10, 20, 30, 40}) Save(step, 9);
  const std::string foreign = Foreign("step-00000099");
  const Opened opened = Resume(dir_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto removed = (*opened)->RemoveAfter(29);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_TRUE(removed->leaves_some);
  EXPECT_THAT(removed->paths, ElementsAre(dir_ + "/step-00000040", dir_ + "/step-00000030"));
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000020", "step-00000099"));
  ExpectStep(dir_, 20);
  EXPECT_THAT(OwnNames(), ElementsAre("format", "lock"));
  EXPECT_TRUE((*opened)->RemoveAfter(20)->paths.empty());
  EXPECT_TRUE((*opened)->RemoveAfter(20)->leaves_some);
  ExpectStep(dir_, 20);
  const auto all = (*opened)->RemoveAfter(9);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(all->leaves_some);
  EXPECT_THAT(Names(), ElementsAre("step-00000099"));
  EXPECT_TRUE(fs::exists(foreign));
  fs::remove_all(dir_ + "/step-00000099");
  EXPECT_FALSE(*HasCheckpoint(dir_));
  Save(5);
  ExpectStep(dir_, 5);
}

TEST_F(RunDirectoryTest, SomeStayBesideTheNewest) {
  const auto save = [this](int64_t step, const std::vector<int64_t>& stays) {
    const auto folder = CheckpointFolder::Create(dir_);
    ASSERT_TRUE(folder.ok()) << folder.status();
    ASSERT_TRUE((*folder)->Commit(SomeState(step), {}, 2, stays, [] {}).ok());
  };
  for (const int64_t step : {10, 20, 30, 40}) save(step, {25, 9});
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000020", "step-00000030", "step-00000040"));
  save(50, {20, 39, 90});
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000020", "step-00000030", "step-00000040",
                                   "step-00000050"));
  save(60, {});
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000050", "step-00000060"));
}

// A run that goes on from step 20 of 40, whose later steps are then another run's.
TEST_F(RunDirectoryTest, WhatWasGivenUpIsNoneOfThoseThatAreKept) {
  for (const int64_t step : {20, 30, 40}) Save(step, 9);
  const Opened run = Resume(dir_ + "/step-00000020");
  ASSERT_TRUE(run.ok()) << run.status();
  Save(35);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000020", "step-00000035", "step-00000040"))
      << "step 40 is not reached yet";
  Save(40);  // the same bytes as the one that was given up
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000035", "step-00000040"));
  Save(50);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000040", "step-00000050"));
  EXPECT_THAT(OwnNames(), ElementsAre("format", "lock"));
}

TEST_F(RunDirectoryTest, WhatWasGivenUpIsNoneOfThoseThatStay) {
  for (const int64_t step : {10, 20, 30}) Save(step, 9);
  const Opened run = Resume(dir_ + "/step-00000010");
  ASSERT_TRUE(run.ok()) << run.status();
  const auto folder = CheckpointFolder::Create(dir_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto committed = (*folder)->Commit(SomeState(40), {}, 1, {35}, [] {});
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000040"));
  EXPECT_THAT(committed->removed, ElementsAre(dir_ + "/step-00000020", dir_ + "/step-00000030"));
}

// Somebody who goes on from the newest of all after that goes on with what was given up.
TEST_F(RunDirectoryTest, WhatSomebodyGoesOnFromIsNotGivenUp) {
  for (const int64_t step : {10, 20, 30}) Save(step, 9);
  ASSERT_TRUE(Resume(dir_ + "/step-00000010").ok());
  const Opened run = Resume(dir_);
  ASSERT_TRUE(run.ok()) << run.status();
  Save(40, 3);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000020", "step-00000030", "step-00000040"));
}

#ifdef SLUICE_FAILPOINTS
// A program that is ended between the two leaves a checkpoint to which nothing leads.
TEST_F(RunDirectoryTest, LeadsToWhatIsRightBeforeItRemovesWhatIsWrong) {
  for (const int64_t step : {10, 20}) Save(step, 9);
  const Opened opened = Resume(dir_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ArmFault(Fault{.point = "disk.rename", .hit = 2});
  const absl::Status status = (*opened)->RemoveAfter(10).status();
  ArmFault(std::nullopt);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step-00000020 cannot be removed"));
  ExpectStep(dir_, 10);
}
#endif

// A new run over steps 40 to 90 of an old one.
class OverwriteTest : public RunDirectoryTest {
 protected:
  void SetUp() override {
    for (const int64_t step : {40, 70, 90}) Save(step, 9);
  }
  // A checkpoint of the new run.
  void SaveNew(int64_t step) {
    RunState state = SomeState(step);
    state.seed = kNewSeed;
    ASSERT_TRUE(TrySave(state).ok());
  }
  uint64_t SeedOfLatest() const {
    const auto checkpoint = OpenCheckpoint(dir_);
    return checkpoint.ok() ? checkpoint->state.seed : 0;
  }

  static constexpr uint64_t kNewSeed = 7;
};

TEST_F(OverwriteTest, TheOldOnesStayUntilTheFirstNewOneAndThenAllGo) {
  const Opened run = Overwrite();
  ASSERT_TRUE(run.ok()) << run.status();
  const std::string theirs = Foreign("step-00000077");
  EXPECT_THAT(Names(), IsSupersetOf({"step-00000040", "step-00000070", "step-00000090"}));
  ExpectStep(dir_, 90);
  SaveNew(10);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000077"));
  EXPECT_EQ(SeedOfLatest(), kNewSeed);
  EXPECT_EQ(ReadBytes(theirs), "step-00000077");
  for (const int64_t step : {20, 70, 90}) SaveNew(step);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000070", "step-00000077", "step-00000090"));
  EXPECT_THAT(OwnNames(), ElementsAre("format", "lock"));
}

TEST_F(OverwriteTest, WhatIsReplacedIsTold) {
  const Opened run = Overwrite();
  ASSERT_TRUE(run.ok()) << run.status();
  const auto folder = CheckpointFolder::Create(dir_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto committed = (*folder)->Commit(SomeState(70), {}, 2, {}, [] {});
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_THAT(committed->removed, ElementsAre(dir_ + "/step-00000040", dir_ + "/step-00000090"));
}

// A checkpoint of an adapter does not have the model that the adapter is for.
TEST_F(OverwriteTest, TheModelOfAnAdapterIsNotReplacedByIt) {
  fs::create_directory_symlink(dir_ + "/step-00000040", folder_ / "link");
  SavingRun run = NewRun();
  run.overwrite = true;
  for (const std::string& base :
       {dir_ + "/step-00000040", dir_ + "/step-00000070/", dir_ + "/latest", dir_,
        dir_ + "/step-00000040/model.safetensors", std::string(folder_ / "link")}) {
    run.base = base;
    EXPECT_THAT(Why(RunDirectory::Open(run)),
                AllOf(HasSubstr("--save " + dir_ + ": "), HasSubstr("--overwrite"), HasSubstr(base),
                      HasSubstr("another directory")))
        << base;
  }
  EXPECT_THAT(OwnNames(), ElementsAre("format", "lock")) << "nothing is noted";
  fs::create_directory(dir_ + "/merged");
  for (const std::string& base : {dir_ + "/merged", std::string(folder_ / "nowhere")}) {
    run.base = base;
    EXPECT_TRUE(RunDirectory::Open(run).ok()) << base << ": is not replaced";
  }
}

TEST_F(OverwriteTest, TheModelOfAResumedAdapterIsNotReplacedByIt) {
  const std::string models = std::exchange(dir_, folder_ / "adapter");
  RunState state = SomeState(5);
  state.base = models + "/step-00000070";
  ASSERT_TRUE(TrySave(state).ok());
  const std::string adapter = std::exchange(dir_, models);
  SavingRun run = NewRun();
  run.resume = adapter;
  run.overwrite = true;
  EXPECT_THAT(Why(RunDirectory::Open(run)), HasSubstr(state.base));
  run.base = folder_ / "copy";  // where that model is now
  EXPECT_TRUE(RunDirectory::Open(run).ok());
}

TEST_F(OverwriteTest, AStepOfTheSameNumberIsExchanged) {
  const Opened run = Overwrite();
  SaveNew(70);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000070"));
  EXPECT_EQ(SeedOfLatest(), kNewSeed);
}

TEST_F(OverwriteTest, ARunThatEndsBeforeItSavesReplacesNothing) {
  ASSERT_TRUE(Overwrite().ok());
  ASSERT_TRUE(Resume(dir_).ok());
  EXPECT_THAT(OwnNames(), ElementsAre("format", "lock")) << "the intention is forgotten";
  Save(100, 9);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000040", "step-00000070", "step-00000090",
                                   "step-00000100"));
}

// Killed after `latest` led to the new checkpoint and before anything was removed.
TEST_F(OverwriteTest, ARunThatIsKilledWhileItRemovesIsTidiedUpAfter) {
  fs::copy(dir_, folder_ / "old", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  ASSERT_TRUE(Overwrite().ok());
  const std::string note = ReadBytes(dir_ + "/.sluice/replaced");
  SaveNew(40);
  for (const char* step : {"/step-00000070", "/step-00000090"}) {
    fs::copy(folder_ / "old" + step, dir_ + step, fs::copy_options::recursive);
  }
  WriteBytes(dir_ + "/.sluice/replaced", note);
  SavingRun run = NewRun();
  run.resume = dir_;
  ASSERT_TRUE(RunDirectory::Open(run).ok());
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000040"));
  EXPECT_EQ(SeedOfLatest(), kNewSeed);
}

// As above, but a person wants one of the old checkpoints back.
TEST_F(OverwriteTest, AnOldOneThatSomebodyGoesOnFromIsNotRemoved) {
  fs::copy(dir_ + "/step-00000090", folder_ / "old", fs::copy_options::recursive);
  ASSERT_TRUE(Overwrite().ok());
  const std::string note = ReadBytes(dir_ + "/.sluice/replaced");
  SaveNew(10);
  fs::rename(folder_ / "old", dir_ + "/step-00000090");
  WriteBytes(dir_ + "/.sluice/replaced", note);
  ASSERT_TRUE(Resume(dir_ + "/step-00000090").ok());
  ExpectStep(dir_ + "/step-00000090", 90);
}

// The new run came to a step of the old one, and a person restored the list of old checkpoints: the
// folder that now has that name is not the checkpoint on the list.
TEST_F(OverwriteTest, OnlyWhatWasNotedIsRemoved) {
  ASSERT_TRUE(Overwrite().ok());
  const std::string note = ReadBytes(dir_ + "/.sluice/replaced");
  for (const int64_t step : {40, 70}) SaveNew(step);
  WriteBytes(dir_ + "/.sluice/replaced", note);
  ASSERT_TRUE(Resume(dir_).ok());
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000040", "step-00000070"));
}

// A folder that nothing can be renamed over, since a file system is mounted there.
TEST_F(OverwriteTest, WhatCannotBeRemovedIsTriedAgain) {
  ASSERT_TRUE(Overwrite().ok());
  const std::string stuck = dir_ + "/step-00000090", aside = folder_ / "aside";
  fs::rename(stuck, aside);
  fs::create_directory(stuck);
  {
    const TinyDisk disk(stuck, "256k");
    if (!disk.mounted()) GTEST_SKIP() << "cannot mount a tmpfs here (needs root)";
    fs::copy(aside, stuck);
    SaveNew(10);
    EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000090"));
  }
  fs::remove(stuck);
  fs::rename(aside, stuck);
  SaveNew(20);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000020"));
  EXPECT_THAT(OwnNames(), ElementsAre("format", "lock"));
}

TEST_F(OverwriteTest, InAnEmptyDirectoryThereIsNothingToDo) {
  dir_ = folder_ / "empty";
  ASSERT_TRUE(Overwrite().ok());
  EXPECT_THAT(OwnNames(), UnorderedElementsAre("format", "lock"));
}

}  // namespace
}  // namespace sluice
