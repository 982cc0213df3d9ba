// What `-o FILE` leaves behind: the whole answer, or what was there before.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/built_files.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using std::filesystem::perms;
using ::testing::AllOf;
using ::testing::EndsWith;
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
    EXPECT_THAT(result.err, HasSubstr("out.json: cannot write: the file size limit is reached"));
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

// Nothing is there yet, where it leads.
TEST_F(OutputFileTest, ALinkToNothingRemains) {
  const std::string link = folder_ / "link.svg";
  std::filesystem::create_symlink("folder/out.svg", link);
  const ProcessResult nowhere = Run(kPicture + link);
  EXPECT_EQ(nowhere.exit_code, kExitBadInput);
  EXPECT_THAT(nowhere.err, HasSubstr("link.svg: cannot write"));
  std::filesystem::create_directory(folder_ / "folder");
  ASSERT_EQ(Run(kPicture + link).exit_code, kExitDone);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(ReadBytes(folder_ / "folder/out.svg"), StartsWith("<svg"));
}

TEST_F(OutputFileTest, APipeIsWrittenInto) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string name : {"pipe", "link"}) {
    if (name == "link") std::filesystem::create_symlink("pipe", folder_ / name);
    std::string read;
    std::thread reader([&] { read = ReadBytes(pipe); });
    const ProcessResult result = Run(kPicture + (folder_ / name));
    reader.join();
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    EXPECT_THAT(read, AllOf(StartsWith("<svg"), EndsWith("</svg>\n")));
    EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
}

// A stream of this process that leads to a file: whoever opened it goes on writing there.
TEST_F(OutputFileTest, AStreamIsWrittenInto) {
  const std::string file = folder_ / "out";
  for (const std::string stream : {"/dev/stdout", "/dev/stderr", "/dev/fd/3", "/proc/self/fd/3"}) {
    const std::string number = stream == "/dev/stdout" ? "1" : stream == "/dev/stderr" ? "2" : "3";
    const std::string shell =
        absl::StrCat("exec ", number, ">", file, "; echo before >&", number, "; ", SluiceProgram(),
                     " ", kPicture, stream, " || exit 1; echo behind >&", number);
    ASSERT_EQ(std::system(shell.c_str()), 0) << stream;
    EXPECT_THAT(ReadBytes(file), AllOf(StartsWith("before\n<svg"), EndsWith("</svg>\nbehind\n")))
        << stream;
  }
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

// Daemons start programs so. A file that is opened then must not take the number of the output.
TEST_F(OutputFileTest, WhatIsPrintedToAClosedOutputGoesIntoNoFile) {
  WriteText(folder_ / "text");
  const std::string log = folder_ / "log.jsonl";
  const std::string train = absl::StrCat(SluiceProgram(), " train --json --data ", folder_ / "text",
                                         " --log ", log, WithTinyRun(" "));
  const auto exit_code = [&](const char* redirected) {
    std::filesystem::remove(log);
    return WEXITSTATUS(std::system(absl::StrCat(train, redirected).c_str()));
  };
  const auto lines = [&] {
    const std::string text = ReadBytes(log);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(exit_code(" > /dev/null"), kExitDone);
  const auto expected = lines();
  for (const char* closed : {" >&- 2> /dev/null", " <&- >&- 2> /dev/null", " <&- >&- 2>&-"}) {
    EXPECT_EQ(exit_code(closed), kExitBadInput);
    EXPECT_EQ(lines(), expected) << closed;
  }
}

TEST_F(OutputFileTest, ARemovedCurrentDirectoryIsAnError) {
  const std::string gone = folder_ / "gone";
  const std::string command =
      absl::StrCat("mkdir ", gone, " && cd ", gone, " && rmdir ", gone, " && ", SluiceProgram(),
                   " config --default -o run.toml 2> ", folder_ / "err");
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), kExitBadInput);
  EXPECT_THAT(ReadBytes(folder_ / "err"), HasSubstr("run.toml: cannot write: cannot create run."));
}

}  // namespace
}  // namespace sluice
