#include "tools/schedule/timetable/priced_timetable.h"

#include <gtest/gtest.h>

#include "schedules/generators/catalogue.h"

namespace sluice {
namespace {

PricedTimetable Priced() {
  PricedTimetable priced;
  priced.table = *GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 4});
  priced.costs.stages = StageCosts::Uniform(2, 1, 1, 1);
  return priced;
}

TEST(PricedTimetable, HasTheBoundOfItsOwnPlacementWhereNothingElseIsProved) {
  const Simulation run = *RunPriced(Priced());
  EXPECT_EQ(run.makespan, 15);
  EXPECT_EQ(run.lower_bound, 13);
  EXPECT_DOUBLE_EQ(run.gap, 15.0 / 13 - 1);
}

// What holds for all cuts may be lower than what holds for the cut of the table, and is what
// counts.
TEST(PricedTimetable, HasTheBoundThatWasProved) {
  PricedTimetable priced = Priced();
  for (const double bound : {14.0, 12.0, 0.0}) {
    priced.lower_bound = bound;
    const Simulation run = *RunPriced(priced);
    EXPECT_EQ(run.lower_bound, bound);
    EXPECT_DOUBLE_EQ(run.gap, 15 / bound - 1);
  }
  // Sums that round differently may leave it a hair above.
  priced.lower_bound = 15 * (1 + 1e-15);
  EXPECT_EQ(RunPriced(priced)->lower_bound, 15);
  EXPECT_EQ(RunPriced(priced)->gap, 0);
}

}  // namespace
}  // namespace sluice
