#include "schedules/lower.h"

#include <gtest/gtest.h>

#include "naive.h"
#include "random_timetable.h"
#include "rendezvous.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/dependency.h"
#include "schedules/generators/catalogue.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

std::vector<std::vector<Action>> WithoutIdle(std::vector<std::vector<Action>> rows) {
  for (auto& row : rows) std::erase_if(row, [](const Action& a) { return a.op == Op::kIdle; });
  return rows;
}

TEST(LowerTimetable, IsSoundForAnyTable) {
  Random random(8);
  for (int i = 0; i < Trials(3'000, 300); ++i) {
    const Timetable table = RandomTimetable(random);
    const auto lowered = LowerTimetable(table);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_TRUE(NaiveIsSound(*lowered));
    const absl::Status sound = ValidateTimetable(*lowered);
    ASSERT_TRUE(sound.ok()) << sound;
    EXPECT_EQ(ComputeOnly(*lowered).rows, WithoutIdle(table.rows));
  }
}

// The machine only looks at the rows.
TEST(LowerTimetable, RunsOnAnyMachineWithRendezvous) {
  Random random(11);
  for (int i = 0; i < 1500; ++i) {
    const Timetable table = RandomTimetable(random);
    LowerOptions options;
    if (i % 3 != 0) options.most_waiting = Draw(random, 1, 4);
    const auto lowered = LowerTimetable(table, options);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    ASSERT_TRUE(NaiveIsSound(*lowered));
    for (const bool greedy : {false, true}) {
      ASSERT_EQ(RunWithRendezvous(*lowered, random, greedy), "") << FormatTimetableCsv(*lowered);
    }
  }
}

TEST(LowerTimetable, TwoCopiesOfTheModelRunToo) {
  Random random(12);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    Timetable table;
    table.placement = Placement::Bidirectional(ranks);
    table.micro_batches = 4;
    table.rows.resize(static_cast<size_t>(ranks));
    // GPipe in each copy, one after the other.
    for (const Op op : {Op::kForward, Op::kBackward}) {
      for (int stage = 0; stage < table.placement.stages(); ++stage) {
        for (int b = 0; b < table.micro_batches; ++b) {
          if (!table.Visits(b, stage)) continue;
          table.rows[table.placement.rank(stage)].push_back(
              {.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = b});
        }
      }
    }
    const auto lowered = LowerTimetable(table, {.most_waiting = 1});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(RunWithRendezvous(*lowered, random, true), "");
  }
}

// The largest number of received tensors that wait at the same time on any rank of a lowered table.
int MostWaiting(const Timetable& lowered) {
  int most = 0;
  for (const auto& row : lowered.rows) {
    int waiting = 0;
    for (const Action& action : row) {
      if (IsCommunication(action.op) && !IsSend(action.op)) most = std::max(most, ++waiting);
      const int from = ProducerStage(lowered.placement, action.op, action.stage);
      if (from != kNoStage &&
          lowered.placement.rank(from) != lowered.placement.rank(action.stage)) {
        --waiting;
      }
    }
  }
  return most;
}

// The largest number of tensors that one action or pair of `table` receives at the same time.
int MostInputs(const Timetable& table) {
  int most = 0;
  for (const auto& row : table.rows) {
    int inputs = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == 0 || !row[i - 1].overlaps_next) inputs = 0;
      const int from = ProducerStage(table.placement, row[i].op, row[i].stage);
      if (from != kNoStage && table.placement.rank(from) != table.placement.rank(row[i].stage)) {
        most = std::max(most, ++inputs);
      }
    }
  }
  return most;
}

TEST(LowerTimetable, KeepsWithinItsReceiveBuffers) {
  Random random(13);
  int put_off = 0;
  for (int i = 0; i < 1500; ++i) {
    const Timetable table = RandomTimetable(random);
    const int limit = Draw(random, 1, 3);
    const Timetable free = *LowerTimetable(table);
    const Timetable limited = *LowerTimetable(table, {.most_waiting = limit});
    EXPECT_LE(MostWaiting(limited), std::max(limit, MostInputs(table)));
    put_off += MostWaiting(limited) < MostWaiting(free);
  }
  EXPECT_GT(put_off, 100);
}

TEST(LowerTimetable, SendsNothingWithinARank) {
  Timetable table = *GenerateSchedule("gpipe", {1, 3});
  EXPECT_EQ(LowerTimetable(table)->rows, table.rows);
}

TEST(LowerTimetable, RefusesWhatIsLoweredOrUnsound) {
  Timetable table = *GenerateSchedule("1f1b", {2, 2});
  const Timetable lowered = *LowerTimetable(table);
  EXPECT_NE(LowerTimetable(lowered).status().message().find("already has sends"),
            absl::string_view::npos);
  EXPECT_FALSE(LowerTimetable(table, {.most_waiting = 0}).ok());
  table.rows[0].pop_back();
  EXPECT_FALSE(LowerTimetable(table).ok());
}

}  // namespace
}  // namespace sluice
