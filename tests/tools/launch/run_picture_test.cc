// What a supervisor sees becomes the history of a run, and a picture.
#include "tools/launch/picture/run_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/membership/message.h"
#include "tools/launch/picture/history_recorder.h"
#include "tools/launch/picture/quiet_run.h"

namespace sluice {
namespace {

using Kind = MemberMessage::Kind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kBegin = absl::Seconds(1000);
absl::Duration At(double seconds) { return kBegin + absl::Seconds(seconds); }

// Two processes train; the first is killed at 3 s, and another takes its place at 4 s; a third one
// comes, and leaves again.
class Story {
 public:
  Story() {
    recorder.Started(0, 100, At(0));
    recorder.Started(1, 101, At(0));
    Form(1, {0, 1}, At(0.5));
    Begins(0, 0, 2, "0-2,3-5", "", At(1));
    for (int step = 1; step <= 4; ++step) recorder.Shown(step, Loss(step), At(1 + 0.5 * step));
    recorder.Ended(0, LaunchHistory::End::kDone, "", At(3));
    recorder.Ended(0, LaunchHistory::End::kLost, "was ended by signal 9 (Killed)", At(3));
    recorder.Started(2, 102, At(3.1));
    // A group that never trains.
    Form(2, {2, 1}, At(3.5));
    Form(3, {2, 1}, At(3.6), At(3));
    Begins(2, 4, 2, "0-2,3-5", "", At(4));
    recorder.Shown(4, Loss(4), At(4.1));  // who took it may not have shown it
    recorder.Shown(5, Loss(5), At(5));
    recorder.Started(3, 103, At(5));
    Say(2, Kind::kWaiting, At(5.5));
    Form(4, {2, 1, 3}, At(5.6));
    Begins(2, 5, 3, "0-1,2-3,4-5", "there are 3 processes instead of 2", At(6));
    recorder.Shown(6, Loss(6), At(7));
    // The third rank gives its state to the others, and leaves.
    Say(2, Kind::kWaiting, At(7.5));
    Form(5, {2, 1, 3}, At(7.6));
    Say(3, Kind::kEnding, At(7.8));
    recorder.Ended(3, LaunchHistory::End::kLeft, "", At(7.8));
    recorder.Ended(3, LaunchHistory::End::kDone, "", At(7.9));
    Begins(2, 6, 2, "0-2,3-5", "there are 2 processes instead of 3", At(8));
    recorder.Shown(7, Loss(7), At(9));
    Say(1, Kind::kEnding, At(9.5));
    MemberMessage result{.kind = Kind::kResult};
    result.weights_hash = 0xabcd;
    recorder.Took(2, result, At(9.6));
    Say(2, Kind::kEnding, At(9.7));
  }

  static float Loss(int step) { return 6 - 0.5F * static_cast<float>(step); }
  LaunchHistory History() const { return recorder.History(At(10)); }
  static QuietRun Quiet() {
    QuietRun quiet;
    quiet.name = "quiet.jsonl";
    quiet.weights_hash = 0xabcd;
    for (int step = 1; step <= 7; ++step) quiet.losses[step] = Loss(step);
    return quiet;
  }

 private:
  void Form(int64_t generation, const std::vector<int>& processes, absl::Duration now,
            absl::Duration lost_at = absl::ZeroDuration()) {
    for (size_t rank = 0; rank < processes.size(); ++rank) {
      MemberMessage group{.kind = Kind::kGroup};
      group.generation = generation;
      group.rank = static_cast<int>(rank);
      group.size = static_cast<int>(processes.size());
      group.lost_at = absl::ToInt64Nanoseconds(lost_at);
      recorder.Sent(processes[rank], group, now);
    }
  }
  void Begins(int process, int64_t step, int stages, const std::string& partition,
              const std::string& why, absl::Duration now) {
    MemberMessage began{.kind = Kind::kBegan};
    began.step = step;
    began.stages = stages;
    began.replicas = 1;
    began.SetText(absl::StrCat(partition, "\n", why));
    recorder.Took(process, began, now);
  }
  void Say(int process, Kind kind, absl::Duration now) {
    recorder.Took(process, {.kind = kind}, now);
  }

  HistoryRecorder recorder{kBegin};
};

TEST(HistoryRecorderTest, KnowsWhoWasThereWhen) {
  const LaunchHistory history = Story().History();
  EXPECT_EQ(history.seconds, 10);
  ASSERT_EQ(history.processes.size(), 4);
  EXPECT_EQ(history.processes[0].pid, 100);
  EXPECT_EQ(history.processes[0].until, 3);
  EXPECT_EQ(history.processes[0].end, LaunchHistory::End::kLost);
  EXPECT_EQ(history.processes[0].how, "was ended by signal 9 (Killed)");
  EXPECT_EQ(history.processes[1].until, 10);
  EXPECT_EQ(history.processes[1].end, LaunchHistory::End::kDone);
  EXPECT_EQ(history.processes[2].from, 3.1);
  EXPECT_EQ(history.processes[3].end, LaunchHistory::End::kLeft);
  EXPECT_EQ(history.processes[3].until, 7.8);
  EXPECT_EQ(history.weights_hash, 0xabcdU);
}

TEST(HistoryRecorderTest, KnowsWhichGroupsTrained) {
  const LaunchHistory history = Story().History();
  ASSERT_EQ(history.groups.size(), 4);  // without the one that did not
  const LaunchHistory::Group& first = history.groups[0];
  EXPECT_EQ(first.from, 1);
  EXPECT_EQ(first.until, 3);
  EXPECT_THAT(first.processes, ElementsAre(0, 1));
  EXPECT_EQ(first.partition, "0-2,3-5");
  EXPECT_FALSE(first.since_loss.has_value());
  const LaunchHistory::Group& second = history.groups[1];
  EXPECT_THAT(second.processes, ElementsAre(2, 1));
  EXPECT_EQ(second.step, 4);
  EXPECT_EQ(second.until, 5.5);
  EXPECT_EQ(second.since_loss, 1.0);
  EXPECT_EQ(history.groups[2].why, "there are 3 processes instead of 2");
  EXPECT_THAT(history.groups[2].processes, ElementsAre(2, 1, 3));
  EXPECT_THAT(history.groups[3].processes, ElementsAre(2, 1));  // the third only gave its state
  EXPECT_EQ(history.groups[3].until, 9.5);
}

TEST(HistoryRecorderTest, HasEachStepOnce) {
  const LaunchHistory history = Story().History();
  ASSERT_EQ(history.steps.size(), 7);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(history.steps[i].step, i + 1);
    EXPECT_EQ(history.steps[i].loss, Story::Loss(i + 1));
  }
  EXPECT_EQ(history.steps[3].at, 3);
}

TEST(HistoryRecorderTest, WrongStepsAreCorrected) {
  HistoryRecorder recorder(kBegin);
  for (int step = 1; step <= 5; ++step) recorder.Shown(step, 1, At(step));
  recorder.Rewound(2);
  for (int step = 3; step <= 4; ++step) recorder.Shown(step, 2, At(step + 3));
  const LaunchHistory history = recorder.History(At(9));
  ASSERT_EQ(history.steps.size(), 4);
  EXPECT_EQ(history.steps[1].loss, 1);
  EXPECT_EQ(history.steps[2].loss, 2);
  EXPECT_EQ(history.steps[3].at, 7);
}

TEST(HistoryRecorderTest, WhatGoesOnLastsUntilNow) {
  HistoryRecorder recorder(kBegin);
  recorder.Started(0, 7, At(0));
  MemberMessage group{.kind = Kind::kGroup};
  group.generation = 1;
  group.size = 1;
  recorder.Sent(0, group, At(1));
  MemberMessage began{.kind = Kind::kBegan};
  began.stages = began.replicas = 1;
  recorder.Took(0, began, At(1));
  EXPECT_EQ(recorder.History(At(4)).groups[0].until, 4);
  EXPECT_EQ(recorder.History(At(5)).processes[0].until, 5);
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RunPictureTest, ShowsProcessesGroupsAndWhy) {
  const std::string svg = DrawRun(Story().History(), {});
  EXPECT_THAT(svg, HasSubstr("sluice launch: 7 steps in 10.0 s"));
  for (const int pid : {100, 101, 102, 103}) {
    EXPECT_THAT(svg, HasSubstr(absl::StrCat(">process ", pid, "<")));
  }
  EXPECT_THAT(svg, HasSubstr("was ended by signal 9 (Killed)"));
  EXPECT_THAT(svg, HasSubstr(">left<"));
  EXPECT_THAT(svg, HasSubstr("after step 4: 2 stages, layers 0-2,3-5, 1.00 s after the loss"));
  EXPECT_THAT(svg, HasSubstr("after step 5: 3 stages, layers 0-1,2-3,4-5; there are 3 processes"));
  EXPECT_THAT(svg, HasSubstr(">loss of each step<"));
  EXPECT_EQ(CountOf(svg, "fill=\"#0072b2\""), 4);  // bars of rank 0, ...
  EXPECT_EQ(CountOf(svg, "fill=\"#e69f00\""), 4);  // ... of rank 1, ...
  EXPECT_EQ(CountOf(svg, "fill=\"#009e73\""), 1);  // ... and of rank 2
  // The bar of rank 1's last group: from 8 s to 9.5 s of 10.
  const size_t bar = svg.rfind("fill=\"#e69f00\"", svg.find(">process 102<"));
  ASSERT_NE(bar, std::string::npos);
  double x = 0, width = 0;
  const size_t rect = svg.rfind("<rect", bar);
  ASSERT_EQ(std::sscanf(svg.c_str() + rect, "<rect x=\"%lf\" y=\"%*f\" width=\"%lf\"", &x, &width),
            2);
  EXPECT_NEAR(width / (976 - x), 1.5 / 2, 1e-3);
}

TEST(RunPictureTest, NoLineBeginsWithAUnit) {
  for (size_t length = 0; length < 200; ++length) {
    LaunchHistory history = Story().History();
    history.groups[1].why = absl::StrCat(std::string(length, 'x'), " 0.289 s instead of 0.481 s");
    const std::string svg = DrawRun(history, {});
    EXPECT_THAT(svg, HasSubstr("0.481 s<")) << length;
    EXPECT_THAT(svg, Not(HasSubstr(">s<"))) << length;
  }
}

TEST(RunPictureTest, SaysWhetherBitsAreThoseOfAnotherRun) {
  const LaunchHistory history = Story().History();
  QuietRun quiet = Story::Quiet();
  EXPECT_THAT(DrawRun(history, quiet),
              HasSubstr("over that of quiet.jsonl (grey): 7 losses have the same bits, and so have "
                        "the weights<"));
  quiet.weights_hash = 1;
  EXPECT_THAT(DrawRun(history, quiet), HasSubstr("but its weights are 0000000000000001"));
  quiet.weights_hash.reset();
  EXPECT_THAT(DrawRun(history, quiet), HasSubstr("the same bits<"));
  quiet.losses[6] = std::nextafter(quiet.losses[6], 10.0F);
  EXPECT_THAT(DrawRun(history, quiet), HasSubstr("from step 6 on not that of quiet.jsonl"));
  quiet.losses = {{100, 1.0F}};
  EXPECT_THAT(DrawRun(history, quiet), HasSubstr("quiet.jsonl has none of these"));
  quiet.name = "<&>.jsonl";
  EXPECT_THAT(DrawRun(history, quiet), HasSubstr("&lt;&amp;&gt;.jsonl has none"));
}

TEST(RunPictureTest, DrawsRunsOfAnyKind) {
  EXPECT_THAT(DrawRun({}, {}), HasSubstr("0 steps in 0.00 s"));
  LaunchHistory diverged = Story().History();
  for (LaunchHistory::Step& step : diverged.steps) {
    step.loss = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_THAT(DrawRun(diverged, {}), Not(HasSubstr("nan")));
  diverged.steps[2].loss = 3;
  EXPECT_THAT(DrawRun(diverged, {}), Not(HasSubstr("nan")));
  LaunchHistory churned = Story().History();
  while (churned.groups.size() < 100) churned.groups.push_back(churned.groups[0]);
  EXPECT_THAT(DrawRun(churned, {}), HasSubstr(">and 60 more<"));
  LaunchHistory long_run = Story().History();
  long_run.steps.clear();
  for (int step = 1; step <= 100'000; ++step) {
    long_run.steps.push_back({.at = step * 1e-4, .step = step, .loss = 3});
  }
  EXPECT_LT(DrawRun(long_run, {}).size(), 100'000U);
}

class QuietRunTest : public testing::Test {
 protected:
  ~QuietRunTest() override { std::remove(path_.c_str()); }
  absl::StatusOr<QuietRun> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadQuietRun(path_);
  }
  const std::string path_ = testing::TempDir() + "sluice_quiet_run.jsonl";
};

TEST_F(QuietRunTest, HasLossesAndTheHash) {
  const absl::StatusOr<QuietRun> run = Read(
      "{\"step\":1,\"loss\":1.5,\"loss_hex\":\"0x3fc00000\"}\n"
      "{\"checkpoint\":\"out\"}\n{\"evaluated_step\":1,\"eval_loss\":2}\n"
      "{\"step\":2,\"loss_hex\":\"0x40000000\"}\n"
      "{\"done\":true,\"weights_hash\":\"00000000000000ff\"}\n");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->name, "sluice_quiet_run.jsonl");
  EXPECT_EQ(run->losses, (std::map<int64_t, float>{{1, 1.5F}, {2, 2.0F}}));
  EXPECT_EQ(run->weights_hash, 255U);
}

TEST_F(QuietRunTest, SaysWhatIsNoLog) {
  const absl::Status text = Read("{\"step\":1,\"loss_hex\":\"0x0\"}\nhello\n").status();
  EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(text.message(), HasSubstr("line 2 is no JSON object; expected the output of"));
  for (const char* wrong : {"", "{}\n", "{\"step\":\"1\",\"loss_hex\":\"0x0\"}\n",
                            "{\"step\":1,\"loss_hex\":7}\n", "{\"step\":1,\"loss_hex\":\"x\"}\n"}) {
    EXPECT_THAT(Read(wrong).status().message(), HasSubstr("no line has a step and its loss"));
  }
  EXPECT_EQ(ReadQuietRun("/nonexistent").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice
