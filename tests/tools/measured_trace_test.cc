#include "tools/schedule/timetable/measured_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class MeasuredTrace : public testing::Test {
 protected:
  // A file with `text`, removed after the test.
  std::string File(const std::string& text) {
    path_ = testing::TempDir() + "measured_trace_test.json";
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  absl::StatusOr<MeasuredRun> Read(const json& events) {
    return ReadMeasuredRun(File(json{{"traceEvents", events}}.dump()), table_);
  }
  void ExpectRefused(const json& events, const std::string& message) {
    const auto run = Read(events);
    ASSERT_FALSE(run.ok());
    EXPECT_THAT(std::string(run.status().message()), HasSubstr(message));
    EXPECT_THAT(std::string(run.status().message()), HasSubstr("measured_trace_test.json: "));
  }

  // `step` of the table at unit costs, with all times multiplied by `slower`, beginning at `begin`
  // seconds; the events are in no order.
  json Step(int step, double slower, double begin) const {
    const Simulation run = *Simulate(table_, StageCosts::Uniform(2, 1, 1, 1));
    json events = json::array();
    for (size_t rank = run.rows.size(); rank-- > 0;) {
      for (auto it = run.rows[rank].rbegin(); it != run.rows[rank].rend(); ++it) {
        const Action& action = it->action;
        events.push_back(
            {{"name", ToString(action)},
             {"ph", "X"},
             {"tid", rank},
             {"ts", 1e6 * (begin + slower * it->start)},
             {"dur", 1e6 * slower * (it->end - it->start)},
             {"args",
              {{"step", step}, {"stage", action.stage}, {"micro_batch", action.micro_batch}}}});
      }
    }
    return events;
  }

  const Timetable table_ = *GenerateSchedule("1f1b", {2, 3});
  std::string path_;
};

// Threads are numbered from 1 where events name their rank; older files have only the thread.
TEST_F(MeasuredTrace, RanksAreNamedOrAreThreads) {
  const json older = Step(1, 1, 0);
  json named = older;
  for (json& event : named) {
    const int rank = event["tid"];
    event["args"]["rank"] = rank;
    event["tid"] = rank + 1;
  }
  const auto by_thread = Read(older), by_name = Read(named);
  ASSERT_TRUE(by_thread.ok()) << by_thread.status();
  ASSERT_TRUE(by_name.ok()) << by_name.status();
  ASSERT_EQ(by_name->rows.size(), 2u);
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(by_name->rows[rank].size(), by_thread->rows[rank].size());
    for (size_t i = 0; i < by_name->rows[rank].size(); ++i)
      EXPECT_EQ(by_name->rows[rank][i].action, by_thread->rows[rank][i].action);
  }
}

TEST_F(MeasuredTrace, TakesTheStepOfMedianDuration) {
  json events = {{{"name", "thread_name"}, {"ph", "M"}, {"tid", 0}}};
  for (const auto& [step, slower] : {std::pair(1, 9.0), {2, 1.0}, {3, 2.0}})
    for (const json& event : Step(step, slower, 100 * step)) events.push_back(event);
  const auto run = Read(events);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->name, "step 3");
  const Simulation planned = *Simulate(table_, StageCosts::Uniform(2, 1, 1, 1));
  ASSERT_EQ(run->rows.size(), 2u);
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(run->rows[rank].size(), planned.rows[rank].size());
    for (size_t i = 0; i < planned.rows[rank].size(); ++i) {
      EXPECT_EQ(run->rows[rank][i].action, planned.rows[rank][i].action);
      EXPECT_NEAR(run->rows[rank][i].start, 2 * planned.rows[rank][i].start, 1e-9);
      EXPECT_NEAR(run->rows[rank][i].end, 2 * planned.rows[rank][i].end, 1e-9);
    }
  }
}

// Steps of earlier groups, which may have run another plan, or the same step that is taken again.
TEST_F(MeasuredTrace, TakesTheLastGroup) {
  json events = json::array();
  for (const auto& [group, slower] : {std::pair(1, 9.0), {3, 2.0}, {2, 1.0}}) {
    for (json event : Step(5, slower, 100 * group)) {
      event["args"]["group"] = group;
      if (group == 1) event["args"]["micro_batch"] = 77;
      events.push_back(event);
    }
  }
  const auto run = Read(events);
  ASSERT_TRUE(run.ok()) << run.status();
  const Simulation planned = *Simulate(table_, StageCosts::Uniform(2, 1, 1, 1));
  ASSERT_EQ(run->rows[0].size(), planned.rows[0].size());
  EXPECT_NEAR(run->rows[0].back().end, 2 * planned.rows[0].back().end, 1e-9);
}

// Of replicas, the slowest of the median step is shown.
TEST_F(MeasuredTrace, TakesTheSlowestReplica) {
  json events = json::array();
  for (const int replica : {0, 1}) {
    for (const auto& [step, slower] : {std::pair(1, 1.0), {2, 2.0}, {3, 4.0}}) {
      for (json event : Step(step, slower * (1 + replica), 100 * step)) {
        const int rank = event["tid"];
        event["args"]["replica"] = replica;
        event["args"]["rank"] = rank + 2 * replica;
        events.push_back(event);
      }
    }
  }
  const auto run = Read(events);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->name, "step 2, replica 1, the slowest of 2");
  EXPECT_NEAR(run->rows[0].front().end, 4, 1e-9);
  ASSERT_EQ(run->rows.size(), 2u);
}

TEST_F(MeasuredTrace, FitsTheDurationsOfEachStage) {
  const auto run = Read(Step(1, 0.25, 7));
  ASSERT_TRUE(run.ok()) << run.status();
  const StageCosts costs = FittedCosts(*run, table_.placement);
  ASSERT_TRUE(CheckCosts(costs, 2).ok());
  for (int stage = 0; stage < 2; ++stage) {
    EXPECT_NEAR(costs.forward[stage], 0.25, 1e-9);
    EXPECT_NEAR(costs.backward[stage], 0.5, 1e-9);
  }
  EXPECT_NEAR(Simulate(table_, costs)->makespan, 0.25 * 12, 1e-8);
}

TEST_F(MeasuredTrace, FitsALoweredTableToo) {
  const Timetable lowered = *LowerTimetable(table_);
  EXPECT_TRUE(ReadMeasuredRun(File(Step(1, 1, 0).dump()), lowered).ok());  // a bare array, too
}

TEST_F(MeasuredTrace, SaysWhatDoesNotFit) {
  json short_one = Step(4, 1, 0);
  const std::string name = short_one.back()["name"];
  short_one.erase(short_one.size() - 1);
  ExpectRefused(short_one, "rank 0 did not run " + name + ", which 1f1b has there");
  json twice = Step(4, 1, 0);
  twice.push_back(twice.back());
  ExpectRefused(twice, "rank 0 ran 0F0, which 1f1b does not have there");
  json elsewhere = Step(4, 1, 0);
  elsewhere[0]["tid"] = 2;
  ExpectRefused(elsewhere, "on rank 2 is not in 1f1b with 2 ranks");
  ExpectRefused(json::array(), "no action in it");
}

TEST_F(MeasuredTrace, RefusesWhatIsNoTrace) {
  for (const char* text : {"", "{", "{}", "[1]", "\xff", R"([{"ph":"X","name":"0F0"}])",
                           R"([{"ph":"X","name":"0F0","tid":"x","args":{}}])"}) {
    const auto run = ReadMeasuredRun(File(text), table_);
    ASSERT_FALSE(run.ok()) << text;
    EXPECT_THAT(std::string(run.status().message()), HasSubstr("not a trace")) << text;
  }
  EXPECT_FALSE(ReadMeasuredRun("/nowhere/trace.json", table_).ok());
}

TEST_F(MeasuredTrace, RefusesTimesThatAreNoTimes) {
  json backwards = Step(1, 1, 0);
  backwards[0]["dur"] = -1;
  ExpectRefused(backwards, "lasts -1 microseconds");
}

}  // namespace
}  // namespace sluice
