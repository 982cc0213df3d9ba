// The power fails at any moment of a few runs that save, and what was not synced is lost, in part
// or as a whole. On an honest disk the newest checkpoint is there all the same; on one that lies
// about syncs, damage is found, and never loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "tests/all_faults.h"
#include "tests/faults/crashed_disk.h"
#include "tests/faults/disk_record.h"
#include "tests/faults/saving_runs.h"
#include "tests/models/data/files.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// A save after which the checkpoint must outlive a crash.
struct Completed {
  size_t changes = 0;  // that were made by then
  WhichCheckpoint which;
};

// A run, the same from an earlier step, whose checkpoints replace those of their steps, and another
// one that replaces all of it.
class RecordedRuns {
 public:
  RecordedRuns() {
    Recognise({});  // what it compares with is saved before anything is recorded
    record_ = std::make_unique<DiskRecord>(folder_.path());
    Run({});
    Run({.resume = directory() + "/step-00000003"});
    Run({.seed = 2, .overwrite = true});
    DiskRecord::End();
    for (size_t i = 0; i < record_->changes().size(); ++i) FindCompleted(i);
  }

  const DiskRecord& record() const { return *record_; }
  std::string directory() const { return folder_ / "run"; }
  // In order.
  const std::vector<Completed>& completed() const { return completed_; }

 private:
  void Run(const SavingRunOptions& options) {
    begins_.emplace_back(record_->changes().size(), options.seed);
    const SavingRunEnd end = RunAndSave(directory(), options);
    EXPECT_TRUE(end.status.ok()) << end.status;
    EXPECT_THAT(end.failed, testing::IsEmpty());
  }

  // It is complete once the folder is synced in which `latest` has been replaced.
  void FindCompleted(size_t i) {
    const DiskChange& change = record_->changes()[i];
    if (change.kind == DiskChange::Kind::kRename && change.to.name == kLatestLink) {
      latest_ = change;
    }
    if (change.kind != DiskChange::Kind::kSync || !latest_ || change.node != latest_->to.folder)
      return;
    uint64_t seed = 0;
    for (const auto& [begin, of] : begins_) seed = begin <= i ? of : seed;
    const DiskNode& link = record_->nodes()[static_cast<size_t>(latest_->node)];
    completed_.push_back({i + 1, {seed, ParseStepFolder(link.target).value_or(-1)}});
    latest_.reset();
  }

  TempFolder folder_{FastFolder()};
  std::unique_ptr<DiskRecord> record_;
  std::vector<std::pair<size_t, uint64_t>> begins_;  // changes before a run, and its seed
  std::optional<DiskChange> latest_;
  std::vector<Completed> completed_;
};

const RecordedRuns& Runs() {
  static const auto* const runs = new RecordedRuns;
  return *runs;
}

// One crash, and what is found after it.
struct Found {
  absl::StatusOr<WhichCheckpoint> opened = absl::UnknownError("");
  std::string instead;
  bool complete = false;  // some save was complete
  bool allowed = false;   // what was opened is the last complete save's, or a later one's
};

class LostWrites : public testing::Test {
 protected:
  Found Crash(unsigned seed, const DiskHabits& habits) {
    std::mt19937 random(seed);
    const size_t count = Moment(random);
    const CrashedDisk disk(Runs().record(), count, habits, random);
    directory_ = (fs::path(folder_.path()) / absl::StrCat("disk", seed)).string();
    disk.WriteTo(directory_);
    directory_ += "/run";
    Found found;
    found.opened = OpenAndRecognise(directory_, &found.instead);
    const std::vector<Completed>& all = Runs().completed();
    const auto later = std::find_if(all.begin(), all.end(),
                                    [&](const Completed& save) { return save.changes > count; });
    found.complete = later != all.begin();
    const auto first = found.complete ? later - 1 : later;
    found.allowed = found.opened.ok() && std::any_of(first, all.end(), [&](const Completed& save) {
                      return save.which == *found.opened;
                    });
    return found;
  }

  // Changes before a crash: every second time the last one is more than one of the many writes.
  static size_t Moment(std::mt19937& random) {
    const std::vector<DiskChange>& changes = Runs().record().changes();
    const size_t any = random() % (changes.size() + 1);
    if (random() % 2 == 0) return any;
    const auto found =
        std::find_if(changes.begin() + static_cast<std::ptrdiff_t>(any), changes.end(),
                     [](const DiskChange& c) { return c.kind != DiskChange::Kind::kWrite; });
    return std::min(changes.size(),
                    static_cast<size_t>(found - changes.begin()) + 1 + random() % 8);
  }

  const int seeds_ = AllFaults() ? 1000 : Trials(50, 20);
  TempFolder folder_{FastFolder()};
  std::string directory_;  // that of --save, after the last crash
};

TEST_F(LostWrites, TheRunsSaveWhatTheyShould) {
  std::vector<WhichCheckpoint> saved;
  for (const Completed& save : Runs().completed()) saved.push_back(save.which);
  EXPECT_THAT(saved, testing::ElementsAre(
                         WhichCheckpoint{1, 1}, WhichCheckpoint{1, 2}, WhichCheckpoint{1, 3},
                         WhichCheckpoint{1, 4}, WhichCheckpoint{1, 4}, WhichCheckpoint{2, 1},
                         WhichCheckpoint{2, 2}, WhichCheckpoint{2, 3}, WhichCheckpoint{2, 4}));
  // On a disk that has lost nothing, the record is what is really there.
  std::mt19937 random(0);
  const DiskRecord& record = Runs().record();
  const CrashedDisk disk(record, record.changes().size(), {.unwritten = 0}, random);
  disk.WriteTo(folder_ / "disk");
  for (const char* name : {"step-00000003", "step-00000004", ".sluice"})
    EXPECT_EQ(BytesOf(folder_ / absl::StrCat("disk/run/", name)),
              BytesOf(absl::StrCat(Runs().directory(), "/", name)))
        << name;
}

TEST_F(LostWrites, AnHonestDiskHasTheNewestCheckpoint) {
  int without = 0, newer = 0;
  for (unsigned seed = 0; seed < static_cast<unsigned>(seeds_); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const Found found = Crash(seed, {.journal = seed % 2 == 0});
    if (!found.complete) {
      without += 1;
    } else {
      ASSERT_TRUE(found.opened.ok()) << found.opened.status();
      ASSERT_EQ(found.instead, "");
      ASSERT_TRUE(found.allowed) << "seed " << found.opened->seed << ", step "
                                 << found.opened->step;
    }
    newer += !found.complete && found.opened.ok() ? 1 : 0;
    // A run goes on there, or begins.
    SavingRunOptions next{.overwrite = true};
    if (found.opened.ok()) next = {.seed = found.opened->seed, .resume = directory_};
    const SavingRunEnd end = RunAndSave(directory_, next);
    ASSERT_TRUE(end.status.ok()) << end.status;
    std::string instead;
    const auto last = OpenAndRecognise(directory_, &instead);
    ASSERT_TRUE(last.ok()) << last.status();
    ASSERT_EQ(*last, (WhichCheckpoint{next.seed, kSavingSteps}));
    fs::remove_all(fs::path(directory_).parent_path());
  }
  std::printf("%d crashes: %d before the first save was complete, of which %d had it\n", seeds_,
              without, newer);
}

// Whoever lies, nothing that is damaged is loaded: Crash compares what is with what runs have
// saved.
TEST_F(LostWrites, DamageOnADiskThatLiesIsFound) {
  int damaged = 0, older = 0, none = 0, right = 0;
  for (unsigned seed = 0; seed < static_cast<unsigned>(seeds_); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const DiskHabits habits{.journal = seed % 2 == 0,
                            .syncs_files = false,
                            .syncs_folders = seed / 2 % 2 == 0,
                            .unwritten = 1 + seed * 37 % 300};
    const Found found = Crash(seed, habits);
    ASSERT_FALSE(HasFailure());
    // A whole checkpoint beside a link to a damaged one is gone on from.
    bool whole = false;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
      whole |= ParseStepFolder(entry.path().filename().string()) && entry.is_directory() &&
               Recognise(BytesOf(entry.path()));
    }
    const bool has_link = fs::is_symlink(fs::symlink_status(directory_ + "/latest", ignored));
    if (whole && has_link) {
      ASSERT_TRUE(found.opened.ok()) << found.opened.status();
    }
    if (!found.opened.ok()) {
      ++(absl::IsDataLoss(found.opened.status()) ? damaged : none);
    } else {
      ++(found.instead.empty() ? right : older);
    }
    fs::remove_all(fs::path(directory_).parent_path());
  }
  std::printf(
      "%d crashes: %d whole, %d damaged with a whole one before it, %d damaged alone, "
      "%d without any\n",
      seeds_, right, older, damaged, none);
  EXPECT_GT(older, 0);
  EXPECT_GT(damaged, 0);
}

// The first test can fail: without syncs of files, or of folders, some crash loses a checkpoint.
TEST_F(LostWrites, SyncsOfFilesAndOfFoldersMatter) {
  for (const bool files : {false, true}) {
    int lost = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
      const Found found =
          Crash(seed, {.journal = false, .syncs_files = files, .syncs_folders = !files});
      fs::remove_all(fs::path(directory_).parent_path());
      const bool kept = found.opened.ok() && found.instead.empty() && found.allowed;
      lost += found.complete && !kept ? 1 : 0;
    }
    EXPECT_GT(lost, 0) << (files ? "folders" : "files");
  }
}

}  // namespace
}  // namespace sluice
