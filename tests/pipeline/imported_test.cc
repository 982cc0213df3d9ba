// Timetables that come from files train to the same bits as one stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "tests/pipeline/small_run.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 2;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Trains the table in `path` and one stage; their bits agree.
void ExpectTrains(const fs::path& path) {
  const absl::StatusOr<Timetable> table = ParseTimetableCsv(ReadAll(path), path.string());
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(ValidateTimetable(*table).ok()) << ValidateTimetable(*table);
  const SmallRun run{.micro_batches = table->micro_batches};
  const absl::StatusOr<RunPlan> plan = CompileRun(MakeRequest(run, *table));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::StatusOr<Outcome> outcome = Train(*plan, SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  SmallRun one = run;
  one.schedule = "gpipe";
  one.ranks = 1;
  const absl::StatusOr<Outcome> expected = Train(MakePlan(one), SmallOptions(kSteps));
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(*outcome, *expected);
}

class Imported : public testing::TestWithParam<SmallRun> {};

TEST_P(Imported, EqualsOneStage) {
  const Timetable table = MakeRequest(GetParam()).timetable;
  if (table.placement.copies() > 1) GTEST_SKIP() << "a CSV does not say what is a copy of what";
  const fs::path path = fs::path(testing::TempDir()) / (GetParam().Name() + ".csv");
  std::ofstream(path, std::ios::binary) << FormatTimetableCsv(table);
  ExpectTrains(path);
  fs::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Imported, testing::ValuesIn(CatalogueRuns({})),
                         [](const auto& run) { return run.param.Name(); });

// The rows of `table` with the micro-batches' backwards in another order, the same for all stages.
Timetable WithBackwards(Timetable table, const std::vector<int>& order) {
  for (auto& row : table.rows) {
    for (Action& action : row) {
      if (action.op == Op::kBackward)
        action.micro_batch = order[static_cast<size_t>(action.micro_batch)];
    }
  }
  return table;
}

// LoopedBFS, as PyTorch writes it, goes backward in descending order: other sums, but the same ones
// for any number of stages and any partition.
TEST(OtherOrderOfSums, EqualsOneStageOfTheSameOrder) {
  const std::vector<std::vector<int>> orders = {{3, 2, 1, 0}, {1, 3, 0, 2}};
  for (const std::vector<int>& order : orders) {
    const auto train = [&](const char* schedule, int ranks, int chunks, uint64_t partition_seed) {
      const SmallRun run{
          .schedule = schedule, .ranks = ranks, .chunks = chunks, .partition_seed = partition_seed};
      const Timetable table = WithBackwards(MakeRequest(run).timetable, order);
      const absl::StatusOr<RunPlan> plan = CompileRun(MakeRequest(run, table));
      EXPECT_TRUE(plan.ok()) << plan.status();
      const absl::StatusOr<Outcome> outcome = Train(*plan, SmallOptions(kSteps));
      EXPECT_TRUE(outcome.ok()) << outcome.status();
      return *outcome;
    };
    const Outcome one = train("gpipe", 1, 1, 0);
    EXPECT_EQ(train("gpipe", 2, 1, 0), one);
    EXPECT_EQ(train("gpipe", 3, 1, 5), one);
    EXPECT_EQ(train("bfs", 2, 2, 0), one);
    EXPECT_EQ(train("bfs", 2, 2, 7), one);
    SmallRun ascending{.schedule = "gpipe", .ranks = 1};
    const absl::StatusOr<Outcome> usual = Train(MakePlan(ascending), SmallOptions(kSteps));
    ASSERT_TRUE(usual.ok()) << usual.status();
    EXPECT_NE(usual->weights_hash, one.weights_hash);
  }
}

TEST(OtherOrderOfSums, IsNotSummedInGroups) {
  const SmallRun run{.schedule = "gpipe", .sum_groups = 2};
  const absl::StatusOr<RunPlan> plan =
      CompileRun(MakeRequest(run, WithBackwards(MakeRequest(run).timetable, {3, 2, 1, 0})));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("in descending order"));
}

// PyTorch's own tables.
TEST(PublishedTables, EqualOneStage) {
  const fs::path folder = SharedFolder() / "data/schedules";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not there";
  int tables = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    SCOPED_TRACE(entry.path().string());
    ExpectTrains(entry.path());
    ++tables;
  }
  EXPECT_GT(tables, 0);
}

}  // namespace
}  // namespace sluice
