// The trace of a run whose ranks come and go: what each of them has left in a file of its own, put
// together.
#include "pipeline/trace/trace_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/trace/format_trace.h"
#include "pipeline/trace/trace_recorder.h"
#include "tests/pipeline/small_run.h"
#include "tests/pipeline/trace/trace_facts.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TracePartsTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }
  std::string File(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  const std::string folder_ = testing::TempDir() + "trace_parts_test.parts";
};

TraceEvent Update(int rank, int64_t step) {
  return {.kind = TraceEvent::Kind::kPhase,
          .rank = rank,
          .step = step,
          .action = {},
          .start = 100 * step,
          .end = 100 * step + 50};
}

TraceGroup Group(int64_t number, size_t ranks) {
  TraceGroup group{.number = number, .schedule = "1f1b", .ranks = {}, .split = {{1, 2}}};
  for (size_t rank = 0; rank < ranks; ++rank) group.ranks.push_back(absl::StrCat("rank ", rank));
  group.marks = {{.time = 7 * number, .text = absl::StrCat("\"group\" ", number)}};
  return group;
}

// [group][rank] the steps of the events, in order.
std::vector<std::vector<std::vector<int64_t>>> Steps(const std::vector<TraceGroup>& groups) {
  std::vector<std::vector<std::vector<int64_t>>> steps;
  for (const TraceGroup& group : groups) {
    auto& of_group = steps.emplace_back(group.ranks.size());
    for (const TraceEvent& event : group.events)
      of_group.at(static_cast<size_t>(event.rank)).push_back(event.step);
  }
  return steps;
}

// Processes that take other ranks in each group, and one that is not there any more when all is read.
TEST_F(TracePartsTest, HasWhatAllRanksOfAllGroupsHaveLeft) {
  std::mt19937_64 random(3);
  std::vector<std::unique_ptr<TraceParts>> processes;
  std::vector<std::vector<std::vector<int64_t>>> expected;
  for (int64_t number = 1; number <= 6; ++number) {
    const size_t ranks = 1 + random() % 4;
    while (processes.size() < ranks) processes.push_back(std::make_unique<TraceParts>(folder_));
    auto& of_group = expected.emplace_back(ranks);
    ASSERT_TRUE(processes.front()->Describe(Group(number, ranks)).ok());
    for (size_t rank = 0; rank < ranks; ++rank) {
      TraceParts& process = *processes[rank];
      process.Begin(number, static_cast<int>(rank));
      for (uint64_t pieces = random() % 3; pieces > 0; --pieces) {
        std::vector<TraceEvent> events;
        for (uint64_t count = random() % 5; count > 0; --count) {
          of_group[rank].push_back(static_cast<int64_t>(random() % 1000));
          events.push_back(Update(static_cast<int>(rank), of_group[rank].back()));
        }
        process.Append(events);
      }
    }
    std::rotate(processes.begin(), processes.begin() + 1, processes.end());
    if (random() % 2 == 0) processes.pop_back();
  }
  const absl::StatusOr<std::vector<TraceGroup>> read = TraceParts(folder_).Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Steps(*read), expected);
  for (size_t at = 0; at < read->size(); ++at) {
    const TraceGroup& group = (*read)[at];
    EXPECT_EQ(group.number, static_cast<int64_t>(at) + 1);
    EXPECT_EQ(group.schedule, "1f1b");
    EXPECT_EQ(group.split, (std::set<std::pair<int, int>>{{1, 2}}));
    ASSERT_EQ(group.marks.size(), 1U);
    EXPECT_EQ(group.marks[0].time, 7 * group.number);
    EXPECT_EQ(group.marks[0].text, absl::StrCat("\"group\" ", group.number));
  }
  TraceParts(folder_).Remove();
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_THAT(*TraceParts(folder_).Read(), IsEmpty());
}

// A process is killed wherever it is.
TEST_F(TracePartsTest, WhatIsNotWholeIsLeftOut) {
  TraceParts process(folder_);
  ASSERT_TRUE(process.Describe(Group(1, 2)).ok());
  process.Begin(1, 0);
  process.Append(std::vector<TraceEvent>{Update(0, 1), Update(0, 2)});
  const std::string file = File("group-00000001.rank-00000");
  fs::resize_file(file, fs::file_size(file) - 3);
  std::ofstream(File("group-00000002.json")) << R"({"number": 2, "sch)";
  const absl::StatusOr<std::vector<TraceGroup>> read = process.Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(Steps(*read), ElementsAre(ElementsAre(ElementsAre(1), IsEmpty())));
}

TEST_F(TracePartsTest, SaysWhyItCannotBeWritten) {
  std::ofstream(folder_) << "a file";
  TraceParts process(folder_);
  EXPECT_THAT(std::string(process.Describe(Group(1, 1)).message()), HasSubstr("cannot be written"));
  process.Begin(1, 0);
  process.Append(std::vector<TraceEvent>{Update(0, 1)});
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("group-00000001.rank-00000"));
  process.Append(std::vector<TraceEvent>{Update(0, 2)});  // does nothing
}

// However often groups change, a process writes no more, and a rank's thread shows no more, than in a
// run without changes.
TEST_F(TracePartsTest, IsBounded) {
  constexpr size_t kMost = 5;
  const RunPlan plan = MakePlan({.ranks = 1});
  const auto state = RankState::Create(plan, 0);
  ASSERT_TRUE(state.ok()) << state.status();
  for (int process = 0; process < 3; ++process) {
    TraceParts parts(folder_, kMost);
    for (int64_t number = 1 + 4 * process; number <= 4 + 4 * process; ++number) {
      ASSERT_TRUE(parts.Describe(Group(number, 1)).ok());
      parts.Begin(number, 0);
      TraceRecorder recorder(**state, TracedSteps(), kMostTraceEvents, &parts);
      for (int64_t step = 1; step <= 2; ++step) {
        { const auto update = recorder.In(TracePhase::kUpdate, 10 * number + step); }
        recorder.HandOver();
        EXPECT_THAT(recorder.events(), IsEmpty());
      }
    }
    EXPECT_EQ(parts.room(), 0U);
  }
  size_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() != ".json") bytes += entry.file_size();
  }
  EXPECT_EQ(bytes, 3 * (kMost + 1) * sizeof(TraceEvent));
  const absl::StatusOr<std::vector<TraceGroup>> read = TraceParts(folder_, kMost).Read();
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<TraceEvent> all;
  for (const TraceGroup& group : *read)
    all.insert(all.end(), group.events.begin(), group.events.end());
  ASSERT_EQ(all.size(), kMost + 1);
  EXPECT_EQ(all.back().kind, TraceEvent::Kind::kFull);
  EXPECT_EQ(all[kMost - 1].step, 31);
}

// The last step is handed over when the recorder goes.
TEST_F(TracePartsTest, LosesNothingOnTheWay) {
  const RunPlan plan = MakePlan({.ranks = 1});
  const auto state = RankState::Create(plan, 0);
  ASSERT_TRUE(state.ok()) << state.status();
  TraceParts parts(folder_);
  ASSERT_TRUE(parts.Describe(Group(1, 1)).ok());
  parts.Begin(1, 0);
  {
    TraceRecorder recorder(**state, TracedSteps{.first = 2, .last = 4}, kMostTraceEvents, &parts);
    for (int64_t step = 1; step <= 5; ++step) {
      if (step == 4) recorder.HandOver();
      const auto update = recorder.In(TracePhase::kUpdate, step);
    }
  }
  EXPECT_THAT(Steps(*parts.Read()), ElementsAre(ElementsAre(ElementsAre(2, 3, 4))));
}

// Two groups that ran the same steps, the second with other ranks: nothing of one is taken for the
// other's.
TEST(TraceOfGroups, HasTheEventsOfEachAndMarks) {
  std::vector<TraceGroup> groups;
  int arrows = 0;
  for (const int ranks : {3, 2}) {
    const RunPlan plan = MakePlan({.schedule = "zb-h1", .ranks = ranks});
    const HashedData data(plan.request.spec, plan.request.batch.seq);
    TrainOptions options = SmallOptions(2);
    options.watching.trace = true;
    const absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
    const TraceFacts alone = ReadTrace(result->trace, plan);
    EXPECT_THAT(alone.groups, IsEmpty());
    EXPECT_THAT(alone.marks, IsEmpty());
    arrows += alone.arrows;
    TraceGroup& group = groups.emplace_back(TraceGroupOf(plan));
    group.number = static_cast<int64_t>(groups.size());
    group.events = result->trace;
    if (groups.size() == 2) group.marks = {{.time = group.events.front().start, .text = "two"}};
  }
  const TraceFacts facts = ReadTrace(groups, 3);
  EXPECT_THAT(facts.defects, IsEmpty());
  EXPECT_THAT(facts.marks, ElementsAre("two"));
  EXPECT_EQ(facts.arrows, arrows);
  EXPECT_EQ(facts.groups.size(), 2U);
  EXPECT_EQ(facts.groups.at(1).count("2F0"), 1U);  // of its third stage
  EXPECT_EQ(facts.groups.at(2).count("2F0"), 0U);
  EXPECT_EQ(facts.groups.at(1).at("1F0"), 2);
  EXPECT_EQ(facts.groups.at(2).at("1F0"), 2);
  EXPECT_THAT(facts.threads,
              ElementsAre(std::pair(1, "rank 0"), std::pair(2, "rank 1"), std::pair(3, "rank 2")));
}

TEST(TraceOfGroups, NamesARankOfOtherReplicasPlainly) {
  TraceGroup first = Group(1, 2), second = Group(2, 2);
  second.ranks[1] = "rank 1 (replica 1)";
  const TraceFacts facts = ReadTrace({first, second}, 2);
  EXPECT_EQ(facts.threads.at(2), "rank 1");
  first.ranks[1] = second.ranks[1];
  EXPECT_EQ(ReadTrace({first, second}, 2).threads.at(2), "rank 1 (replica 1)");
}

}  // namespace
}  // namespace sluice
