// `sluice train` is killed in the middle of any call of a save, which it may have half done, and is
// resumed: the last checkpoint that it spoke of is there, and the end is that of a run that nobody
// killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "tests/all_faults.h"
#include "tests/faults/saving_runs.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class KilledProcess : public testing::Test {
 protected:
  void SetUp() override { WriteText(folder_ / "text"); }
  void TearDown() override { unsetenv("SLUICE_FAILPOINT"); }

  ProcessResult Train(const std::string& fault, const std::string& more) const {
    return Run("train", fault, "--steps 4 --save-every 1 " + more);
  }

  // `command`: with --json.
  ProcessResult Run(const std::string& command, const std::string& fault,
                    const std::string& more) const {
    if (!fault.empty()) setenv("SLUICE_FAILPOINT", fault.c_str(), /*overwrite=*/1);
    ProcessResult result = RunSluice(Words(absl::StrCat(
        command, " --json --data ", folder_ / "text", " --save ", save_, " ", WithTinyRun(more))));
    unsetenv("SLUICE_FAILPOINT");
    return result;
  }

  // Of a run that ends well.
  static std::string Weights(const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json summary = LastLine(result.out);
    EXPECT_TRUE(summary.is_object()) << result.out;
    return summary.is_object() ? summary.value("weights_hash", "") : "";
  }

  // The last step whose checkpoint the program has said to be there; 0 without any.
  static int64_t LastSaved(const std::string& out) {
    int64_t last = 0;
    for (size_t at = out.find("/step-"); at != std::string::npos; at = out.find("/step-", at + 1))
      last = std::max<int64_t>(last, std::atoll(out.c_str() + at + 6));
    return last;
  }

  TempFolder folder_{FastFolder()};
  const std::string save_ = folder_ / "out";
};

TEST_F(KilledProcess, IsResumedFromAWholeCheckpoint) {
  const std::string wanted = Weights(Train("", ""));
  int killed = 0, resumed = 0, told = 0;
  const int stride = AllFaults() ? 1 : 29;
  for (const char* point : {"disk.open", "disk.write", "disk.reserve", "disk.sync", "disk.rename",
                            "disk.symlink", "disk.mkdir", "disk.remove", "disk.truncate"}) {
    for (int hit = AllFaults() ? 1 : 3;; hit += stride) {
      const std::string fault = absl::StrCat(point, ":", hit, ":kill");
      SCOPED_TRACE(fault);
      fs::remove_all(save_);
      const ProcessResult end = Train(fault, "");
      if (end.signal == 0) {
        EXPECT_EQ(Weights(end), wanted);
        break;  // it does not come by there so often
      }
      ASSERT_EQ(end.signal, SIGKILL) << end.err;
      ++killed;
      std::string instead;
      const absl::StatusOr<LoadedCheckpoint> newest = OpenNewestGoodCheckpoint(save_, &instead);
      const int64_t saved = LastSaved(end.out);
      told += saved > 0 ? 1 : 0;
      EXPECT_EQ(instead, "");
      if (saved > 0) {
        ASSERT_TRUE(newest.ok()) << newest.status();
        EXPECT_GE(newest->state.step, saved);
      }
      resumed += newest.ok() ? 1 : 0;
      const std::string rest = newest.ok() ? "--resume " + save_ : "--overwrite";
      ASSERT_EQ(Weights(Train("", rest)), wanted);
    }
  }
  std::printf("killed %d times, %d after a checkpoint that it had told of; resumed %d times\n",
              killed, told, resumed);
  EXPECT_GT(told, 0);
}

// One rank of several is, which is not resumed: the others go on with it.
class KilledRank : public KilledProcess {
 protected:
  void TearDown() override {
    unsetenv("SLUICE_FAILPOINT_ONCE");
    KilledProcess::TearDown();
  }

  // `fault`: of one rank, once.
  ProcessResult Launch(const std::string& fault, const std::string& more) const {
    const std::string once = folder_ / "once";
    fs::remove(once);
    setenv("SLUICE_FAILPOINT_ONCE", once.c_str(), /*overwrite=*/1);
    return Run("launch --processes 2 -- train", fault, "--steps 3 --save-every 2 " + more);
  }

  // Whether the second group of ranks began with a checkpoint of which the first had not told.
  static bool FoundOne(const std::string& out) {
    const size_t continued = out.find("\"continued\"");
    return continued != std::string::npos &&
           out.find("\"from\":\"checkpoint\"", continued) != std::string::npos &&
           LastSaved(out.substr(0, continued)) == 0;
  }
};

// Also one of which rank 0 could not tell any more, and never one of another run, which has trained
// for longer.
TEST_F(KilledRank, IsReplacedByOneThatGoesOnFromTheRunsOwnCheckpoint) {
  const std::string wanted = Weights(Launch("", ""));
  for (const bool overwrites : {false, true}) {
    int found = 0;
    for (int hit = 2;; ++hit) {
      const std::string fault = absl::StrCat("disk.remove:", hit, ":kill");
      SCOPED_TRACE(fault);
      fs::remove_all(save_);
      if (overwrites) Weights(Run("train", "", "--seed 2 --steps 5"));
      const ProcessResult end = Launch(fault, overwrites ? "--overwrite" : "");
      EXPECT_EQ(Weights(end), wanted) << end.err;
      EXPECT_EQ(OpenCheckpoint(save_)->state.seed, 1U);
      if (end.out.find("\"lost\"") == std::string::npos || HasFailure()) break;
      found += FoundOne(end.out) ? 1 : 0;
    }
    EXPECT_GE(found, 1);
  }
}

// A mistake in the environment would otherwise be a test that tests nothing.
TEST_F(KilledProcess, AnUnknownFaultIsRefused) {
  const ProcessResult end = Train("disk.write:x:kill", "");
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.err, testing::HasSubstr("SLUICE_FAILPOINT"));
  EXPECT_THAT(end.err, testing::HasSubstr("expected POINT:HIT:KIND"));
}

}  // namespace
}  // namespace sluice
