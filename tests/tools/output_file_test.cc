// What `-o FILE` leaves behind: the whole answer, or what was there before.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using std::filesystem::perms;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of more than a kibibyte.
constexpr char kPlan[] = "plan gpt2 --devices 4 --device h200 --schedule 1f1b -o ";
constexpr char kPicture[] = "schedule show 1f1b -p 4 -m 8 --format svg -o ";

class OutputFileTest : public testing::Test {
 protected:
  static ProcessResult Run(const std::string& arguments, int file_limit_kib = 0) {
    return RunSluice(Words(arguments), file_limit_kib);
  }
  void ExpectOnly(const std::string& name) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_EQ(entry.path().filename(), name);
    }
  }

  TempFolder folder_;
};

TEST_F(OutputFileTest, AFileStaysWhereTheNewOneDoesNotFit) {
  const std::string file = folder_ / "out.json";
  WriteBytes(file, "good");
  for (const char* command : {kPlan, kPicture}) {
    const ProcessResult result = Run(command + file, 1);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, kExitBadInput);
    EXPECT_THAT(result.err, HasSubstr("out.json: cannot write: "));
    EXPECT_THAT(result.err, HasSubstr("the file size limit is reached"));
    EXPECT_EQ(ReadBytes(file), "good");
    ExpectOnly("out.json");
  }
}

TEST_F(OutputFileTest, AFileIsReplacedAsAWhole) {
  const std::string file = folder_ / "out.svg";
  WriteBytes(file, std::string(1 << 20, 'x'));
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write);
  ASSERT_EQ(Run(kPicture + file).exit_code, kExitDone);
  EXPECT_THAT(ReadBytes(file), StartsWith("<svg"));
  EXPECT_EQ(std::filesystem::status(file).permissions(), perms::owner_read | perms::owner_write);
  ExpectOnly("out.svg");
}

TEST_F(OutputFileTest, ALinkRemains) {
  const std::string link = folder_ / "link.svg";
  WriteBytes(folder_ / "out.svg", "old");
  std::filesystem::create_symlink("out.svg", link);
  ASSERT_EQ(Run(kPicture + link).exit_code, kExitDone);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(ReadBytes(folder_ / "out.svg"), StartsWith("<svg"));
}

// Where there is nothing to replace.
TEST_F(OutputFileTest, DevicesArePrintedTo) {
  EXPECT_THAT(Run(absl::StrCat(kPicture, "/dev/stdout")).out, StartsWith("<svg"));
  EXPECT_EQ(Run(absl::StrCat(kPicture, "/dev/null")).exit_code, kExitDone);
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
  const ProcessResult full = Run(absl::StrCat(kPicture, "/dev/full"));
  EXPECT_EQ(full.exit_code, kExitBadInput);
  EXPECT_THAT(full.err, HasSubstr("/dev/full: cannot write: No space left"));
}

// What is written at the end of a run is tried at its beginning, and does no harm until then.
TEST_F(OutputFileTest, AFailedRunLeavesTheTraceOfTheRunBefore) {
  const std::string text = folder_ / "text", trace = folder_ / "trace.json";
  WriteText(text);
  WriteBytes(trace, "good");
  const std::string diverges = "--steps 30 --optimizer sgd --lr 1e30 --clip 0 --trace " + trace;
  const ProcessResult result = Run(absl::StrCat("train --data ", text, " ", WithTinyRun(diverges)));
  EXPECT_EQ(result.exit_code, kExitBadInput);
  EXPECT_THAT(result.err, HasSubstr("micro-batch"));
  EXPECT_EQ(ReadBytes(trace), "good");
}

}  // namespace
}  // namespace sluice
