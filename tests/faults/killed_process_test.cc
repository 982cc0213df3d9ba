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
    if (!fault.empty()) setenv("SLUICE_FAILPOINT", fault.c_str(), /*overwrite=*/1);
    ProcessResult result = RunSluice(
        Words(absl::StrCat("train --json --data ", folder_ / "text", " --save ", save_, " ",
                           WithTinyRun(absl::StrCat("--steps 4 --save-every 1 ", more)))));
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

// A mistake in the environment would otherwise be a test that tests nothing.
TEST_F(KilledProcess, AnUnknownFaultIsRefused) {
  const ProcessResult end = Train("disk.write:x:kill", "");
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.err, testing::HasSubstr("SLUICE_FAILPOINT"));
  EXPECT_THAT(end.err, testing::HasSubstr("expected POINT:HIT:KIND"));
}

}  // namespace
}  // namespace sluice
