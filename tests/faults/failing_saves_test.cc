// Each call by which a run saves, and each message of it, fails, is torn, is late, or is the last
// one that works: the run goes on or ends as its documentation says, and a whole checkpoint is
// there, from which it can be resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/failpoints/failpoints.h"
#include "tests/all_faults.h"
#include "tests/faults/saving_runs.h"
#include "tests/models/data/files.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// What was there before the run whose calls go wrong, and that run.
struct Scenario {
  const char* name;
  bool before;  // all checkpoints of the run with seed 1 are there
  SavingRunOptions run;
  std::vector<std::string> points;  // by which it comes, among others
};

std::vector<Scenario> Scenarios() {
  return {{"NewDirectory",
           false,
           {},
           {"disk.open", "disk.write", "disk.reserve", "disk.sync", "disk.rename", "disk.symlink",
            "disk.mkdir", "disk.remove", "disk.truncate", "message.send", "message.receive",
            "message.wait", "message.meet"}},
          {"OverTcp",
           false,
           {.tcp = true},
           {"message.send", "message.receive", "message.wait", "message.meet"}},
          {"GoesOnBeforeItsNewest", true, {.resume = "step-00000002"}, {"disk.exchange"}},
          {"ReplacesAnotherRun", true, {.seed = 2, .overwrite = true}, {"disk.exchange"}}};
}

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

bool IsMessage(const std::string& point) { return absl::StartsWith(point, "message."); }

// Faults at every hit of every failpoint of messages, or of every other one.
std::vector<Fault> FaultsAt(const std::map<std::string, int64_t>& hits, bool messages) {
  std::vector<Fault> faults;
  for (const auto& [point, count] : hits) {
    if (IsMessage(point) != messages) continue;
    for (int64_t hit = 1; hit <= count; ++hit) {
      const Fault at{.point = point, .hit = hit, .delay = absl::Milliseconds(2)};
      for (const FaultKind kind :
           {FaultKind::kFail, FaultKind::kTear, FaultKind::kDelay, FaultKind::kVanish}) {
        if (messages && kind == FaultKind::kTear) continue;  // the same as a failure
        Fault& fault = faults.emplace_back(at);
        fault.kind = kind;
        if (kind == FaultKind::kTear) fault.error = ENOSPC;
      }
      // What a file system says that cannot do it: there may be another way.
      if (point == "disk.reserve" || point == "disk.rename" || point == "disk.exchange" ||
          point == "disk.sync") {
        Fault& fault = faults.emplace_back(at);
        fault.error = EINVAL;
      }
    }
  }
  return faults;
}

class FailingSaves : public testing::TestWithParam<Scenario> {
 protected:
  void TearDown() override { ArmFault(std::nullopt); }

  // The directory as it is before the run.
  std::string Prepare(const std::string& name) const {
    std::string directory = folder_ / name;
    if (!GetParam().before) return directory;
    const std::string original = folder_ / "before";
    if (!fs::exists(original)) {
      const SavingRunEnd end = RunAndSave(original, {.keep = kSavingSteps});
      EXPECT_TRUE(end.status.ok()) << end.status;
    }
    fs::copy(original, directory, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return directory;
  }

  static SavingRunEnd Run(const std::string& directory) {
    SavingRunOptions run = GetParam().run;
    if (!run.resume.empty()) run.resume = absl::StrCat(directory, "/", run.resume);
    return RunAndSave(directory, run);
  }

  // The checkpoint that is there after a run that ended so; the seed is 0 if there is none.
  static WhichCheckpoint CheckWhatIsThere(const std::string& directory, const SavingRunEnd& end) {
    std::string instead;
    const absl::StatusOr<WhichCheckpoint> found = OpenAndRecognise(directory, &instead);
    EXPECT_EQ(instead, "");
    if (!GetParam().before && end.saved.empty() && !found.ok()) return {};
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return {};
    const bool is_old = found->seed == 1 && found->step == kSavingSteps;
    const bool is_new = found->seed == GetParam().run.seed;
    if (end.saved.empty()) {
      EXPECT_TRUE(is_old || is_new) << "seed " << found->seed << ", step " << found->step;
    } else {
      EXPECT_TRUE(is_new) << "seed " << found->seed << ", step " << found->step;
      EXPECT_GE(found->step, end.saved.back());
    }
    return *found;
  }

  // Nothing but checkpoints is left once a run has ended well.
  static void CheckNames(const std::string& directory) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(absl::StartsWith(name, "step-") || name == "latest" || name == ".sluice") << name;
    }
    std::vector<std::string> own;
    for (const auto& entry : fs::directory_iterator(directory + "/.sluice"))
      own.push_back(entry.path().filename().string());
    EXPECT_THAT(own, testing::UnorderedElementsAre("format", "lock"));
  }

  // Goes on with what is there, on a disk on which nothing goes wrong any more.
  static void GoOn(const std::string& directory, const WhichCheckpoint& from) {
    SavingRunOptions rest{.seed = 1, .overwrite = true};
    if (from.seed != 0) rest = {.seed = from.seed, .resume = directory};
    const SavingRunEnd end = RunAndSave(directory, rest);
    EXPECT_TRUE(end.status.ok()) << end.status;
    EXPECT_THAT(end.failed, testing::IsEmpty());
    std::string instead;
    const absl::StatusOr<WhichCheckpoint> last = OpenAndRecognise(directory, &instead);
    ASSERT_TRUE(last.ok()) << last.status();
    EXPECT_EQ(instead, "");
    EXPECT_EQ(last->seed, rest.seed);
    EXPECT_EQ(last->step, kSavingSteps);
    CheckNames(directory);
  }

  static void CheckEnd(const Fault& fault, const SavingRunEnd& end) {
    const int64_t first = GetParam().run.resume.empty() ? 0 : 2;
    if (fault.kind == FaultKind::kDelay) {
      EXPECT_TRUE(end.status.ok()) << end.status;
      EXPECT_THAT(end.failed, testing::IsEmpty());
    }
    if (fault.kind != FaultKind::kVanish) {
      EXPECT_LE(end.failed.size() + (end.status.ok() ? 0 : 1), 1U);
    }
    // A run that ends well has saved its last step, which it tries once more if need be.
    if (end.status.ok()) {
      EXPECT_THAT(end.saved, testing::Not(testing::IsEmpty()));
      EXPECT_EQ(end.saved.back(), kSavingSteps);
      EXPECT_GE(end.saved.size() + end.failed.size(), static_cast<size_t>(kSavingSteps - first));
    }
  }

  static void CheckMessages(const Fault& fault, const SavingRunEnd& end) {
    if (fault.kind == FaultKind::kDelay) return;
    // Without its message a rank cannot go on, and tells the others.
    EXPECT_EQ(end.status.code(), absl::StatusCode::kUnavailable) << end.status;
  }

  // How often the undisturbed run comes by each failpoint.
  std::map<std::string, int64_t> CountHits() const {
    const std::string directory = Prepare("undisturbed");
    ArmFault(std::nullopt);
    const SavingRunEnd end = Run(directory);
    std::map<std::string, int64_t> hits = FailpointHits();
    EXPECT_TRUE(end.status.ok()) << end.status;
    EXPECT_EQ(CheckWhatIsThere(directory, end).step, kSavingSteps);
    for (const std::string& point : GetParam().points) EXPECT_TRUE(hits.contains(point)) << point;
    return hits;
  }

  SavingRunEnd Try(const Fault& fault) const {
    const std::string directory = Prepare("run");
    ArmFault(fault);
    SavingRunEnd end = Run(directory);
    const bool happened = FaultHappened();
    ArmFault(std::nullopt);
    CheckEnd(fault, end);
    if (IsMessage(fault.point)) {
      if (happened) CheckMessages(fault, end);  // ranks that are late meet more often
    } else {
      EXPECT_TRUE(happened);
    }
    GoOn(directory, CheckWhatIsThere(directory, end));
    fs::remove_all(directory);
    return end;
  }

  void TryAll(bool messages) const {
    const std::vector<Fault> faults = FaultsAt(CountHits(), messages);
    // Primes, so that all kinds come up.
    const size_t stride = AllFaults() ? 1 : kSanitized ? 163 : 83;
    size_t tried = 0, ended = 0, told = 0;
    for (size_t i = 0; i < faults.size() && !HasFailure(); i += stride) {
      const Fault& fault = faults[i];
      SCOPED_TRACE(absl::StrCat(fault.point, ":", fault.hit, ":", FaultKindName(fault.kind),
                                " with errno ", fault.error));
      const SavingRunEnd end = Try(fault);
      ++tried;
      ended += end.status.ok() ? 0 : 1;
      told += end.failed.empty() ? 0 : 1;
    }
    std::printf(
        "%zu of %zu faults: %zu runs ended with an error, %zu went on without a checkpoint\n",
        tried, faults.size(), ended, told);
    EXPECT_GT(ended, 0U);
  }

  TempFolder folder_{FastFolder()};
};

TEST_P(FailingSaves, LeaveAWholeCheckpointWhereTheDiskFails) { TryAll(/*messages=*/false); }

TEST_P(FailingSaves, LeaveAWholeCheckpointWhereMessagesFail) { TryAll(/*messages=*/true); }

INSTANTIATE_TEST_SUITE_P(Runs, FailingSaves, testing::ValuesIn(Scenarios()),
                         [](const auto& scenario) { return std::string(scenario.param.name); });

}  // namespace
}  // namespace sluice
