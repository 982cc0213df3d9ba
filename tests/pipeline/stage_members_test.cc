// Stages with different numbers of members give the bits of one pipeline that sums gradients in as
// many groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/compile/program/check_progress.h"
#include "pipeline/compile/replicas/tensor_edges.h"
#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/simulate/dealt_times.h"
#include "tests/pipeline/small_run.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 2;

// One rank, one stage.
SmallRun Baseline(SmallRun run) {
  run.sum_groups = MakePlan(run).sum_groups();
  run.ranks = 1;
  run.stage_members = {};
  run.zero = 0;
  run.schedule = "gpipe";
  run.recompute = Recompute::kNone;
  run.recompute_ahead = false;
  run.partition_seed = 0;
  return run;
}

// Two to four stages of one to three members each, at most seven ranks, and a number of groups that
// the members of every stage divide.
std::vector<SmallRun> Runs() {
  const char* models[] = {"wide", "wide", "wide_tied", "mlp"};
  const char* schedules[] = {"gpipe", "1f1b", "zb-h1", "eager-1f1b", "zb-2p"};
  std::mt19937_64 random(20);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint64_t>(n));
  };
  std::vector<SmallRun> runs;
  for (int number = 0; number < Trials(36, 20); ++number) {
    SmallRun run{.model = models[number % 4],
                 .schedule = schedules[number % 5],
                 .micro_batches = 12,
                 .recompute = static_cast<Recompute>(below(3)),
                 .recompute_ahead = number % 4 == 2,
                 .dtype = number % 3 == 0 ? DType::kBFloat16 : DType::kFloat32,
                 .partition_seed = static_cast<uint64_t>(below(3)),
                 .optimizer = number % 7 == 0 ? OptimizerKind::kSgd : OptimizerKind::kAdamW,
                 .sum_groups = number % 2 == 0 ? 0 : 6,
                 .zero = number % 4 == 1 ? 1 : 0};
    do {
      run.ranks = 2 + below(3);
      run.stage_members.clear();
      for (int stage = 0; stage < run.ranks; ++stage) run.stage_members.push_back(1 + below(3));
    } while (std::accumulate(run.stage_members.begin(), run.stage_members.end(), 0) > 7);
    runs.push_back(run);
  }
  runs.push_back({.ranks = 1, .micro_batches = 6, .stage_members = {3}});
  runs.push_back({.model = "wide_tied", .ranks = 1, .micro_batches = 4, .stage_members = {2}});
  // Slices of tied weights are on the same ranks only if both stages have the same number of
  // members.
  runs.push_back({.model = "wide_tied",
                  .schedule = "zb-h1",
                  .ranks = 3,
                  .micro_batches = 6,
                  .zero = 1,
                  .stage_members = {2, 1, 2}});
  runs.push_back({.model = "mlp", .ranks = 3, .micro_batches = 4, .stage_members = {1, 4, 1}});
  return runs;
}

class StageMembers : public testing::TestWithParam<SmallRun> {};

TEST_P(StageMembers, EqualOnePipeline) {
  absl::StatusOr<Outcome> outcome = Train(MakePlan(GetParam()), SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, OutcomeOnce(Baseline(GetParam()), kSteps));
}

INSTANTIATE_TEST_SUITE_P(Random, StageMembers, testing::ValuesIn(Runs()), [](const auto& run) {
  return absl::StrCat("n", run.index, "_", run.param.Name());
});

Timetable Generate(const std::string& schedule, int ranks, int micro_batches) {
  return *GenerateSchedule(
      schedule,
      {.ranks = ranks, .micro_batches = micro_batches, .chunks = schedule == "zbv" ? 2 : 1});
}

TEST(StageDeal, GivesEveryMicroBatchToOneMemberInTurn) {
  const StageDeal deal({3, 1, 2}, 2);
  EXPECT_EQ(deal.ranks(), 6);
  EXPECT_EQ(deal.first_rank(2), 4);
  EXPECT_EQ(deal.StagesOf(2), std::vector<int>{0});
  EXPECT_EQ(deal.member(2), 2);
  EXPECT_EQ(deal.round(2), 4);
  const int expected[] = {0, 0, 1, 1, 2, 2, 0, 0};
  for (int b = 0; b < 8; ++b) {
    EXPECT_EQ(deal.rank(0, b), expected[b]);
    EXPECT_EQ(deal.rank(1, b), 3);
    EXPECT_EQ(deal.rank(2, b), 4 + b / 2 % 2);
  }
}

TEST(NarrowTimetable, IsSoundOfEverySchedule) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-2p", "eager-1f1b"}) {
    const std::vector<int> members = {2, 1, 3};
    const Timetable wide = Generate(schedule, 6, 12);
    const absl::StatusOr<Timetable> narrow = NarrowTimetable(wide, members);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_TRUE(ValidateTimetable(*narrow).ok()) << schedule;
    size_t dealt = 0;
    for (const std::vector<Action>& row : DealRows(*narrow, StageDeal(members, 1)))
      dealt += row.size();
    size_t all = 0;
    for (const std::vector<Action>& row : narrow->rows) all += row.size();
    EXPECT_EQ(dealt, all);
  }
  EXPECT_FALSE(NarrowTimetable(Generate("1f1b", 4, 4), {2, 1}).ok());
  EXPECT_FALSE(NarrowTimetable(Generate("zbv", 3, 6), {2, 1}).ok());
  EXPECT_FALSE(NarrowTimetable(Generate("pipedream", 3, 6), {2, 1}).ok());
}

void ExpectSameRun(const Simulation& run, const Simulation& expected) {
  EXPECT_NEAR(run.span, expected.span, 1e-12);
  EXPECT_NEAR(run.span_bubble, expected.span_bubble, 1e-12);
  EXPECT_NEAR(run.lower_bound, expected.lower_bound, 1e-12);
  EXPECT_NEAR(run.gap, expected.gap, 1e-12);
  EXPECT_EQ(run.peak_activations, expected.peak_activations);
  ASSERT_EQ(run.rows.size(), expected.rows.size());
  for (size_t rank = 0; rank < run.rows.size(); ++rank) {
    EXPECT_NEAR(run.work[rank], expected.work[rank], 1e-9);
    ASSERT_EQ(run.rows[rank].size(), expected.rows[rank].size());
    for (size_t i = 0; i < run.rows[rank].size(); ++i) {
      EXPECT_EQ(run.rows[rank][i].action, expected.rows[rank][i].action);
      EXPECT_DOUBLE_EQ(run.rows[rank][i].start, expected.rows[rank][i].start);
      EXPECT_DOUBLE_EQ(run.rows[rank][i].end, expected.rows[rank][i].end);
    }
  }
}

TEST(SimulateDealt, AgreesWithTheSimulatorWhereNothingIsDealt) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> seconds(0.5, 2);
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    const Timetable table = Generate(schedule, 4, 8);
    StageCosts costs = StageCosts::Uniform(4, 1, 1, 1);
    for (std::vector<double>* of :
         {&costs.forward, &costs.backward, &costs.input_grad, &costs.weight_grad}) {
      for (double& value : *of) value = seconds(random);
    }
    const absl::StatusOr<Simulation> expected = Simulate(table, costs);
    ASSERT_TRUE(expected.ok());
    const Simulation times = SimulateDealt({table, StageDeal({1, 1, 1, 1}, 1)}, costs);
    EXPECT_DOUBLE_EQ(times.makespan, expected->makespan);
    EXPECT_NEAR(times.bubble, expected->bubble, 1e-12);
    ExpectSameRun(
        SimulateDealt({table, StageDeal({1, 1, 1, 1}, 1)}, costs, {}, Detail::kEveryAction),
        *expected);
  }
}

// The time at which each micro-batch has finished each stage, computed from the rows of all ranks.
using Ends = std::map<std::pair<int, int>, double>;

Ends EndsOf(const Simulation& run, bool gradients) {
  Ends ends;
  for (const auto& row : run.rows) {
    for (const auto& [action, start, end] : row) {
      const bool gradient = action.op == Op::kBackward || action.op == Op::kInputGrad;
      if (gradients ? gradient : action.op == Op::kForward)
        ends[{action.stage, action.micro_batch}] = end;
    }
  }
  return ends;
}

// The halves of a pair may be dealt to two ranks, which cannot run them together.
TEST(DealRows, LeavesNoPairs) {
  Timetable table = Generate("1f1b", 2, 4);
  const auto pair =
      std::find_if(table.rows[0].begin(), table.rows[0].end() - 1,
                   [](const Action& a) { return a.op == Op::kForward && a.micro_batch == 2; });
  pair->overlaps_next = true;
  ASSERT_EQ((pair + 1)->op, Op::kBackward);
  for (const std::vector<Action>& row : DealRows(table, StageDeal({2, 1}, 1))) {
    for (const Action& action : row) EXPECT_FALSE(action.overlaps_next);
  }
}

// The critical path leads from 0 to the makespan, and each of its actions starts once the one before
// it has ended and its message has arrived.
void ExpectChain(const Simulation& run, const StageCosts& costs) {
  const std::vector<TimedAction>& path = run.critical_path;
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().start, 0);
  EXPECT_EQ(path.back().end, run.makespan);
  for (size_t i = 1; i < path.size(); ++i) {
    const int from = path[i - 1].action.stage, to = path[i].action.stage;
    const double message = from == to ? 0 : costs.send[std::min(from, to)];
    EXPECT_NEAR(path[i].start, path[i - 1].end + message, 1e-9);
  }
}

// Every rank does its share, one action after another and none before its input has arrived; the
// makespan is not below the bound.
TEST(SimulateDealt, DrawsWhatCanRun) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> seconds(0.2, 3);
  const std::vector<std::vector<int>> deals = {{3, 1}, {1, 2, 3}, {4}, {2, 2}, {1, 1, 4}};
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "eager-1f1b"}) {
    for (const std::vector<int>& members : deals) {
      const auto stages = static_cast<int>(members.size());
      StageCosts costs = StageCosts::Uniform(stages, 1, 1, 1);
      for (std::vector<double>* of : {&costs.forward, &costs.input_grad, &costs.weight_grad}) {
        for (double& value : *of) value = seconds(random);
      }
      for (int s = 0; s < stages; ++s)
        costs.backward[s] = costs.input_grad[s] + costs.weight_grad[s];
      for (double& value : costs.send) value = seconds(random) / 4;
      costs.activation_bytes.assign(static_cast<size_t>(stages), 3);
      costs.weight_grad_bytes = costs.activation_bytes;
      const StageDeal deal(members, 1);
      const DealtTimetable dealt(*NarrowTimetable(Generate(schedule, deal.ranks(), 12), members),
                                 deal);
      const Simulation run = SimulateDealt(dealt, costs, {}, Detail::kEveryAction);
      EXPECT_EQ(run.makespan, SimulateDealt(dealt, costs).makespan);
      EXPECT_LE(run.lower_bound, run.makespan);
      EXPECT_GE(run.lower_bound, 12.0 / members[0] * (costs.forward[0] + costs.backward[0]) - 1e-9);
      ExpectChain(run, costs);
      const Timetable drawn = DrawnTable(dealt);
      ASSERT_EQ(drawn.rows.size(), run.rows.size());
      EXPECT_EQ(drawn.placement.ranks(), deal.ranks());
      const Ends forwards = EndsOf(run, false), gradients = EndsOf(run, true);
      EXPECT_EQ(forwards.size(), 12u * stages);
      for (size_t rank = 0; rank < run.rows.size(); ++rank) {
        ASSERT_EQ(drawn.rows[rank].size(), run.rows[rank].size());
        EXPECT_EQ(run.peak_bytes[rank], 3.0 * run.peak_activations[rank]) << "held until W";
        double clock = 0;
        for (const auto& [action, start, end] : run.rows[rank]) {
          EXPECT_EQ(deal.rank(action.stage, action.micro_batch), static_cast<int>(rank));
          EXPECT_GE(start, clock);
          const int s = action.stage, b = action.micro_batch;
          if (action.op == Op::kForward && s > 0) {
            EXPECT_GE(start, forwards.at({s - 1, b}) + costs.send[s - 1]);
          }
          if ((action.op == Op::kBackward || action.op == Op::kInputGrad) && s + 1 < stages) {
            EXPECT_GE(start, gradients.at({s + 1, b}) + costs.send[s]);
          }
          clock = end;
        }
      }
    }
  }
}

// A stage with three members and three times the work takes as long as three stages do; with the
// rows of a pipeline of two stages, which keeps two micro-batches in flight, it does not.
TEST(NarrowTimetable, KeepsAllMembersBusy) {
  const StageDeal deal({3, 1}, 1);
  StageCosts costs = StageCosts::Uniform(2, 1, 1, 1);
  costs.forward[0] = 3;
  costs.backward[0] = 6;
  const Timetable wide = Generate("1f1b", 4, 24);
  const double four_stages = Simulate(wide, StageCosts::Uniform(4, 1, 1, 1))->makespan;
  const double narrow = SimulateDealt({*NarrowTimetable(wide, {3, 1}), deal}, costs).makespan;
  EXPECT_LE(narrow, 1.05 * four_stages);
  const double two_rows = SimulateDealt({Generate("1f1b", 2, 24), deal}, costs).makespan;
  EXPECT_GT(two_rows, 1.2 * narrow);
}

// If a sum came directly after the member's last gradient, as it may with replicas, the member
// would keep other ranks from the work that it waits for; compiling must report that.
TEST(Progress, ASumInTheWrongPlaceIsFound) {
  RunPlan plan = MakePlan({.model = "wide",
                           .ranks = 3,
                           .micro_batches = 12,
                           .sum_groups = 4,
                           .stage_members = {2, 1, 1}});
  EXPECT_TRUE(CheckProgress(plan.train).status.ok());
  std::vector<Instruction>& all = plan.train[0].instructions;
  const auto sum = std::find_if(all.begin(), all.end(), [](const Instruction& i) {
    return i.step == Step::kReduceGradients;
  });
  ASSERT_NE(sum, all.end());
  const auto own_last =
      std::find_if(std::make_reverse_iterator(sum), all.rend(), [&](const Instruction& i) {
        return i.step == Step::kEndAction && i.micro_batch == sum->micro_batch;
      }).base();
  std::rotate(own_last, sum, sum + 1);
  const absl::Status stuck = CheckProgress(plan.train).status;
  EXPECT_EQ(stuck.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(stuck.message()),
              HasSubstr("rank 0 waits for the ranks that sum gradients with it"));
}

TEST(TensorEdges, JoinMembersOfAStageAndNeighbours) {
  const RunPlan plan =
      MakePlan({.model = "wide", .ranks = 2, .micro_batches = 4, .stage_members = {2, 1}});
  const std::vector<std::pair<int, int>> edges = {{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}};
  EXPECT_EQ(TensorEdges(plan), edges);
}

class StageMembersCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / absl::StrCat("stages_", test->name());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Contents(size_t run, const char* file) const {
    std::ifstream in(folder_ / absl::StrCat(run) / "latest" / file, std::ios::binary);
    EXPECT_TRUE(in) << file;
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path folder_;
};

TEST_F(StageMembersCheckpoint, IsTheOneOfOnePipelineAndGoesOnAnywhere) {
  const SmallRun one{.model = "wide", .schedule = "gpipe", .ranks = 1, .sum_groups = 6};
  std::vector<SmallRun> runs(4, one);
  runs[1].ranks = 2;
  runs[1].stage_members = {3, 1};
  runs[2].ranks = 3;
  runs[2].stage_members = {1, 2, 3};
  runs[2].schedule = "1f1b";
  runs[2].zero = 1;
  runs[3].replicas = 2;
  for (SmallRun& run : runs) run.micro_batches = 12 / run.replicas;
  absl::StatusOr<Outcome> whole = Train(MakePlan(runs[0]), SmallOptions(3));
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (size_t i = 0; i < runs.size(); ++i) {
    TrainOptions first = SmallOptions(2);
    first.saving.directory = (folder_ / absl::StrCat(i)).string();
    ASSERT_TRUE(Train(MakePlan(runs[i]), first).ok());
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
      EXPECT_EQ(Contents(i, file), Contents(0, file)) << runs[i].Name() << " " << file;
    TrainOptions rest = SmallOptions(3);
    rest.saving.resume = first.saving.directory;
    const SmallRun& after = runs[(i + 1) % runs.size()];
    absl::StatusOr<Outcome> resumed = Train(MakePlan(after), rest);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->weights_hash, whole->weights_hash)
        << runs[i].Name() << ", then " << after.Name();
  }
}

std::string ErrorOf(const SmallRun& run, const std::vector<int>& members) {
  RunRequest request = MakeRequest(run);
  request.stage_members = members;
  const absl::Status status = CompileRun(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(BadStageMembers, AreRefusedWithAReason) {
  EXPECT_THAT(ErrorOf({}, {3, 1}), HasSubstr("4 micro-batches in 4 sums cannot be dealt to the 3"));
  EXPECT_THAT(ErrorOf({.micro_batches = 12, .sum_groups = 4}, {1, 3}),
              HasSubstr("3 ranks of stage 1"));
  EXPECT_THAT(ErrorOf({.sum_groups = 3}, {1, 1}), HasSubstr("in 3 groups of 4"));
  EXPECT_THAT(ErrorOf({}, {2, 1, 1}), HasSubstr("are of 3 stages; schedule '1f1b' has 2"));
  EXPECT_THAT(ErrorOf({}, {2, 0}), HasSubstr("2,0: expected 1 or more for each stage"));
  EXPECT_THAT(ErrorOf({}, {2, 2000}), HasSubstr("1024 ranks at most"));
  EXPECT_THAT(ErrorOf({.replicas = 2}, {2, 1}), HasSubstr("give one of the two"));
  EXPECT_THAT(ErrorOf({.zero = 2}, {2, 1}), HasSubstr("take ZeRO 1"));
  EXPECT_THAT(ErrorOf({.model = "tied", .zero = 1}, {2, 1}), HasSubstr("take ZeRO 0"));
  EXPECT_THAT(ErrorOf({.schedule = "chimera", .chunks = 2}, {2, 1}), HasSubstr("two copies"));
  EXPECT_THAT(ErrorOf({.schedule = "interleaved", .chunks = 2}, {2, 1}),
              HasSubstr("several stages"));
  EXPECT_THAT(ErrorOf({.schedule = "pipedream-2bw"}, {2, 1}), HasSubstr("without a flush"));
}

}  // namespace
}  // namespace sluice
