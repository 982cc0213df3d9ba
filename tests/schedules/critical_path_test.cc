#include "schedules/simulate/critical_path.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "random_timetable.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr int kTables = Trials(3'000, 300);

struct Case {
  Timetable table;
  StageCosts costs;
  Simulation run;
};

Case RandomCase(Random& random, int number) {
  Case drawn;
  drawn.table = RandomTimetable(random);
  if (number % 3 == 1) AddRecomputes(random, drawn.table);
  if (number % 2 == 1) drawn.table = *LowerTimetable(drawn.table);
  drawn.costs = RandomCosts(random, drawn.table.placement.stages());
  drawn.run = *Simulate(drawn.table, drawn.costs);
  return drawn;
}

// The times must agree with each kind of cause.
void ExpectTrue(const Case& of, Spot spot, const Cause& cause) {
  const TimedAction& timed = of.run.rows[spot.rank][spot.position];
  if (cause.kind == Cause::Kind::kStart) {
    EXPECT_EQ(timed.start, 0);
    return;
  }
  const TimedAction& after = of.run.rows[cause.after.rank][cause.after.position];
  EXPECT_DOUBLE_EQ(after.end + cause.on_link, timed.start) << ToString(timed.action);
  EXPECT_GE(cause.idle, 0);
  if (cause.kind == Cause::Kind::kRank) {
    EXPECT_EQ(cause.after.rank, spot.rank);
    EXPECT_EQ(after.end, timed.start);
    return;
  }
  EXPECT_NE(cause.after.rank, spot.rank);
  const int from = after.action.stage;
  const bool forward = after.action.op == Op::kForward;
  const double send = of.costs.send[static_cast<size_t>(forward ? from : from - 1)];
  if (cause.kind == Cause::Kind::kMessage) {
    EXPECT_DOUBLE_EQ(after.end + send, timed.start);
  }
  if (cause.kind == Cause::Kind::kLink) {
    EXPECT_FALSE(of.costs.link_busy.empty());
  }
}

TEST(FindCause, SaysWhyEveryActionStartsWhenItDoes) {
  Random random(3);
  int links = 0;
  for (int i = 0; i < kTables; ++i) {
    const Case drawn = RandomCase(random, i);
    for (int rank = 0; rank < drawn.table.placement.ranks(); ++rank) {
      for (size_t k = 0; k < drawn.run.rows[rank].size(); ++k) {
        const Cause cause = FindCause(drawn.run, drawn.table.placement, drawn.costs, {rank, k});
        ExpectTrue(drawn, {rank, k}, cause);
        links += cause.kind == Cause::Kind::kLink;
      }
    }
  }
  EXPECT_GT(links, 100);
}

TEST(FindCriticalPath, LeadsFromTheStartToTheMakespan) {
  Random random(4);
  for (int i = 0; i < kTables; ++i) {
    const Case drawn = RandomCase(random, i);
    if (drawn.run.makespan == 0) continue;
    const auto& path = drawn.run.critical_path;
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path.front().start, 0);
    EXPECT_EQ(path.back().end, drawn.run.makespan);
    for (size_t k = 1; k < path.size(); ++k) EXPECT_GE(path[k].start, path[k - 1].end);
  }
}

TEST(FindCause, NamesTheQueueOnASlowLink) {
  const Timetable table = *GenerateSchedule("gpipe", {2, 4});
  StageCosts costs = StageCosts::Uniform(2, 1, 1, 1, 3);
  costs.link_busy = {3};
  const Simulation run = *Simulate(table, costs);
  const Cause cause = FindCause(run, table.placement, costs, {1, 3});
  EXPECT_STREQ(CauseName(cause.kind), "link");
  EXPECT_EQ(cause.after, (Spot{0, 0}));  // 0F0 was the first in the queue
  EXPECT_EQ(cause.on_link, 12);          // four transfers
  EXPECT_EQ(cause.idle, 2);
}

}  // namespace
}  // namespace sluice
