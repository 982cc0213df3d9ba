#include "partitioner/planning/race/race.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_options.h"

namespace sluice {
namespace {

// Returns `seconds` if they are below the cutoff, and records its arguments.
struct Runner : Contestant {
  explicit Runner(double found) : seconds(found) {}

  RaceResult Search(const SearchOptions& options) override {
    asked = options;
    ++searches;
    RaceResult found;
    found.steps = steps;
    found.cutoff = options.cutoff;
    found.outcome = seconds < options.cutoff ? RaceOutcome::kFound : RaceOutcome::kSlower;
    if (found.found()) found.seconds = seconds;
    return found;
  }

  double seconds;
  int64_t steps = 0;
  int searches = 0;
  SearchOptions asked;
};

std::vector<Contestant*> Pointers(std::deque<Runner>& runners) {
  std::vector<Contestant*> pointers;
  for (Runner& runner : runners) pointers.push_back(&runner);
  return pointers;
}

TEST(Race, GivesEachWaveTheBestOfThoseBeforeIt) {
  std::deque<Runner> runners;
  for (double seconds : {5, 4, 6, 3, 7}) runners.emplace_back(seconds);
  Race race({.cutoff = 100, .wave = 2});
  race.Run(Pointers(runners));
  std::vector<double> cutoffs;
  for (const Runner& runner : runners) cutoffs.push_back(runner.asked.cutoff);
  EXPECT_EQ(cutoffs, (std::vector<double>{100, 100, 4, 4, 3}));
  EXPECT_EQ(race.best(), &runners[3]);
  EXPECT_EQ(race.incumbent(), 3);
  EXPECT_EQ(race.tried(), 5);
  EXPECT_EQ(runners[2].result.outcome, RaceOutcome::kSlower);
  EXPECT_EQ(runners[2].result.cutoff, 4);
}

TEST(Race, OfEquallyFastOnesTheFirstIsBest) {
  std::deque<Runner> runners;
  for (double seconds : {2.0, 2.0 * (1 - kProofTolerance / 2), 2.0}) runners.emplace_back(seconds);
  Race race({.wave = 3});
  race.Run(Pointers(runners));
  EXPECT_EQ(race.best(), &runners[0]);
}

TEST(Race, SparesThoseThatCannotBeGoodEnough) {
  std::deque<Runner> runners;
  for (double seconds : {10, 9, 8}) runners.emplace_back(seconds);
  runners[1].floor = 9.5;  // at most 5 % better than the first
  runners[2].floor = 8;
  Race race({.gap = 0.1});
  race.Run(Pointers(runners));
  EXPECT_EQ(runners[1].searches, 0);
  EXPECT_EQ(runners[1].result.outcome, RaceOutcome::kNotTried);
  EXPECT_EQ(runners[2].searches, 1);
  EXPECT_EQ(race.tried(), 2);
}

TEST(Race, NothingBeatsWhatIsKnown) {
  std::deque<Runner> runners;
  for (double seconds : {10, 9}) runners.emplace_back(seconds);
  Race race({.cutoff = 5});
  race.Run(Pointers(runners));
  EXPECT_EQ(race.best(), nullptr);
  EXPECT_EQ(race.incumbent(), 5);
}

TEST(Race, TriesAlsoWhereTheBestTakesNoTime) {
  std::deque<Runner> runners(2, Runner(0));
  Race race({});
  race.Run(Pointers(runners));
  EXPECT_EQ(race.tried(), 2);
  EXPECT_EQ(race.incumbent(), 0);
}

// The next runners may use what one leaves of its share; each gets at least the least budget.
TEST(Race, SharesTheBudget) {
  std::deque<Runner> runners(3, Runner(1));
  runners[0].steps = 4;
  runners[1].steps = 13;
  Race race({.budget = 30, .least_budget = 2});
  race.Run(Pointers(runners));
  EXPECT_EQ(runners[0].asked.budget, 10);
  EXPECT_EQ(runners[1].asked.budget, 13);
  EXPECT_EQ(runners[2].asked.budget, 13);
  EXPECT_EQ(race.steps(), 17);
  Race poor({.budget = 3, .least_budget = 2});
  poor.Run(Pointers(runners));
  EXPECT_EQ(runners[2].asked.budget, 2);
  EXPECT_EQ(poor.steps(), 3);
}

TEST(Race, MayEndBetweenWaves) {
  for (const bool leave : {true, false}) {
    std::deque<Runner> runners(3, Runner(1));
    int waves = 0;
    Race race({.stop = [&waves] { return waves >= 1; },
               .leave_when_stopped = leave,
               .after_wave = [&waves] { ++waves; }});
    race.Run(Pointers(runners));
    EXPECT_EQ(race.tried(), leave ? 1 : 3);
  }
}

TEST(Race, SaysHowMuchLonger) {
  EXPECT_EQ(WhyLonger(1.5, 1, true), "+50.0 % (best found; proved slower)");
  EXPECT_EQ(WhyLonger(1.031, 1, false), "+3.1 % (best found; not proved slower)");
  EXPECT_EQ(WhyLonger(2, 2, true), "as fast, with as many or more micro-batches in flight");
}

}  // namespace
}  // namespace sluice
