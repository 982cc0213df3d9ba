#include "tools/train/log/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/pipeline/small_run.h"
#include "tools/train/log/event_file.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~EventLogTest() override { std::filesystem::remove_all(directory_); }

  // A process of its own: a log without pictures, whose timetable has no costs.
  std::unique_ptr<MetricsLog> Log() {
    return MakeEventLog(directory_, absl::Seconds(1), [](const std::string&) {});
  }
  void Begin(MetricsLog& log, int64_t step) {
    ASSERT_TRUE(log.Begin(plan_, StageCosts(), step).ok());
  }
  static void Steps(MetricsLog& log, int64_t first, int64_t last) {
    StepMetrics metrics;
    for (metrics.step = first; metrics.step <= last; ++metrics.step)
      ASSERT_TRUE(log.Step(metrics).ok());
  }
  // How often files have a number with that name, whatever it is shown of.
  int CountOf(const std::string& tag) const {
    const std::string field = std::string("\n") + static_cast<char>(tag.size()) + tag;
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)), {});
      for (size_t at = bytes.find(field); at != std::string::npos; at = bytes.find(field, at + 1))
        ++count;
    }
    return count;
  }
  bool Shows(int64_t step, const std::string& tag) const {
    return ShownAt(directory_, step).count(tag) != 0;
  }

  const std::string directory_ = testing::TempDir() + "event_log_test." + std::to_string(getpid());
  const RunPlan plan_ = MakePlan({});
};

TEST_F(EventLogTest, AStepThatIsBroughtIsKeptOnce) {
  const auto log = Log();
  Begin(*log, 0);
  Steps(*log, 1, 4);
  Begin(*log, 4);  // another group, with the same rank 0
  Steps(*log, 4, 6);
  EXPECT_EQ(CountOf("loss"), 6);
  const auto other = Log();  // its rank 0 is another one
  Begin(*other, 6);
  Steps(*other, 6, 7);
  EXPECT_EQ(CountOf("loss"), 7);
  for (int64_t step = 1; step <= 7; ++step) EXPECT_TRUE(Shows(step, "loss")) << step;
}

TEST_F(EventLogTest, AStepThatIsBroughtIsKeptWhereItIsNotShown) {
  const auto log = Log();
  Begin(*log, 0);
  Steps(*log, 1, 4);
  const auto other = Log();  // whoever has taken step 5 is lost, and has not told of it
  Begin(*other, 5);
  Steps(*other, 5, 6);
  EXPECT_EQ(CountOf("loss"), 6);
  EXPECT_TRUE(Shows(5, "loss"));
}

TEST_F(EventLogTest, StepsOfAnEarlierRunDoNotCount) {
  const auto earlier = Log();
  Begin(*earlier, 0);
  Steps(*earlier, 1, 4);
  const auto log = Log();
  Begin(*log, 0);
  EXPECT_FALSE(Shows(3, "loss"));
  Steps(*log, 1, 2);
  Begin(*log, 3);
  Steps(*log, 3, 4);  // step 3 is of the other run
  EXPECT_EQ(CountOf("loss"), 4 + 4);
  EXPECT_TRUE(Shows(3, "loss"));
}

TEST_F(EventLogTest, AnEvaluationThatIsDoneAgainIsKeptOnce) {
  const auto log = Log();
  Begin(*log, 0);
  Steps(*log, 1, 2);
  ASSERT_TRUE(log->Evaluated({.step = 2, .loss = 1}).ok());
  const auto other = Log();
  Begin(*other, 2);
  ASSERT_TRUE(other->Evaluated({.step = 2, .loss = 1}).ok());
  EXPECT_EQ(CountOf("eval_loss"), 1);
  Steps(*other, 3, 3);
  ASSERT_TRUE(other->Evaluated({.step = 3, .loss = 1}).ok());
  EXPECT_EQ(CountOf("eval_loss"), 2);
}

TEST_F(EventLogTest, FilesAreReadInTheOrderInWhichTheyWereMade) {
  const auto log = Log();
  for (int64_t step = 0; step < 12; ++step) {
    Begin(*log, step);
    Steps(*log, step + 1, step + 3);
  }
  for (int64_t step = 1; step <= 14; ++step) EXPECT_TRUE(Shows(step, "loss")) << step;
  Begin(*log, 0);  // in a file after number 11, by name too
  EXPECT_FALSE(Shows(5, "loss"));
}

TEST_F(EventLogTest, DamagedFilesAreReadAsFarAsTheyAreWhole) {
  const auto log = Log();
  Begin(*log, 0);
  Steps(*log, 1, 3);
  const std::string path = std::filesystem::directory_iterator(directory_)->path().string();
  const auto whole = std::filesystem::file_size(path);
  EXPECT_THAT(ShownAt(directory_, 3), SizeIs(ShownAt(directory_, 2).size()));
  std::filesystem::resize_file(path, whole - 1);
  EXPECT_THAT(ShownAt(directory_, 3), IsEmpty());
  EXPECT_TRUE(Shows(2, "loss"));
  for (uintmax_t size = 0; size < whole; ++size) {  // none of them is read past its end
    std::filesystem::resize_file(path, whole - 1 - size);
    ShownAt(directory_, 3);
  }
  EXPECT_THAT(ShownAt(directory_ + "/none", 3), IsEmpty());
}

TEST_F(EventLogTest, WhatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((directory_ + "/events.out.tfevents.1.pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(directory_ + "/events.out.tfevents.2.folder");
  EXPECT_THAT(ShownAt(directory_, 3), IsEmpty());
}

TEST_F(EventLogTest, APictureIsShownWithItsBytes) {
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x1\0\0\0\x1\x8\x2\0\0\0", 29);
  const auto file = EventFile::Create(directory_);
  ASSERT_TRUE(file.ok());
  const std::string bytes = png + "what else is in it";
  ASSERT_TRUE((*file)->AddPng(2, "picture", bytes).ok());
  EXPECT_THAT(ShownAt(directory_, 2), ElementsAre(Pair("picture", bytes)));
  EXPECT_THAT(ShownAt(directory_, 1), IsEmpty());
}

}  // namespace
}  // namespace sluice
