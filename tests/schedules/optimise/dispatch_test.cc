// Dispatch keeps its contract for any problem and rules: every action runs once, in an order that
// completes within the limits and takes the stated time.
#include "schedules/optimise/dispatch/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/simulate/simulate.h"

namespace sluice::optimise {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double Real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

 private:
  std::mt19937_64 random_;
};

OptimiseRequest RandomRequest(Draw& draw) {
  OptimiseRequest request;
  const int ranks = draw.Int(1, 5), chunks = draw.Int(1, 3), stages = ranks * chunks;
  request.placement =
      draw.Int(0, 1) == 0 ? Placement::Looped(ranks, chunks) : Placement::V(ranks, chunks);
  request.micro_batches = draw.Int(1, 12);
  request.costs = StageCosts::Uniform(stages, 1, 1, 1);
  for (int s = 0; s < stages; ++s) {
    request.costs.forward[s] = draw.Int(0, 9);
    request.costs.input_grad[s] = draw.Int(0, 9);
    request.costs.weight_grad[s] = draw.Int(0, 9);
    request.costs.backward[s] = request.costs.input_grad[s] + request.costs.weight_grad[s];
    if (draw.Int(0, 2) == 0) request.costs.backward[s] *= 0.75;
    if (s + 1 < stages) request.costs.send[s] = draw.Int(0, 4);
    request.costs.activation_bytes.push_back(draw.Int(2, 9));
    request.costs.weight_grad_bytes.push_back(draw.Int(0, 9));
  }
  if (draw.Int(0, 2) == 0) return request;
  for (int rank = 0; rank < ranks; ++rank) {
    double least = 0;
    for (int s : request.placement.StagesOf(rank)) least += request.costs.activation_bytes[s];
    request.limits.bytes.push_back(least + draw.Int(0, 40));
  }
  return request;
}

DispatchRules RandomRules(Draw& draw) {
  Preferences rules;
  if (draw.Int(0, 1) == 0) rules.in_flight = draw.Real(0.5, 4);
  rules.forward_first = draw.Int(0, 1) == 0;
  rules.deep_first = draw.Int(0, 1) == 0;
  rules.patience = draw.Real(0, 1);
  rules.late_share = draw.Int(1, 2);
  if (draw.Int(0, 1) == 0) {
    rules.split_first = draw.Real(0, 1);
    rules.split_last = draw.Real(0, 2);
  }
  if (draw.Int(0, 2) == 0) return rules;
  DueTimes due;
  due.slowness = draw.Real(0.5, 3);
  due.spare = draw.Int(0, 5);
  due.late_weights = draw.Real(0, 5);
  due.patience = draw.Real(0, 1);
  return due;
}

void ExpectWithinLimits(const Problem& problem, const Order& order) {
  for (const MemoryRule& rule : problem.memory) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      double held = 0;
      for (const Step& step : order[rank]) {
        held += rule.change(step);
        EXPECT_LE(held, rule.limit[rank] * (1 + kSlack));
      }
    }
  }
}

bool HasBackward(const std::vector<Action>& row) {
  return std::any_of(row.begin(), row.end(),
                     [](const Action& action) { return action.op == Op::kBackward; });
}

bool WaitsOnPurpose(const DispatchRules& rules) {
  const auto* due = std::get_if<DueTimes>(&rules);
  return (due != nullptr ? due->patience : std::get<Preferences>(rules).patience) > 0;
}

void ExpectPromptWeights(const std::vector<char>& prompt, const Order& order) {
  for (const auto& row : order) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].op != Op::kInputGrad || !prompt[row[i].stage]) continue;
      ASSERT_LT(i + 1, row.size());
      EXPECT_EQ(row[i + 1], (Step{Op::kWeightGrad, row[i].stage}));
    }
  }
}

TEST(Dispatch, CompletesWithinTheLimitsAndTakesWhatItSays) {
  int by_due_time = 0, limited = 0, fusing = 0;
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    const OptimiseRequest request = RandomRequest(draw);
    absl::StatusOr<Problem> problem = MakeProblem(request);
    ASSERT_TRUE(problem.ok()) << problem.status();
    std::vector<char> prompt;
    for (int s = 0; s < problem->stages; ++s) prompt.push_back(draw.Int(0, 3) == 0);
    const DispatchRules rules = RandomRules(draw);
    by_due_time += std::holds_alternative<DueTimes>(rules);
    limited += !problem->memory.empty();
    const Schedule schedule = Dispatch(*problem, rules, prompt);
    ExpectWithinLimits(*problem, schedule.order);
    ExpectPromptWeights(prompt, schedule.order);
    const Timetable table = TimetableOf(*problem, schedule.order);
    EXPECT_EQ(OrderOf(*problem, table), schedule.order);
    for (const auto& row : table.rows) fusing += HasBackward(row) ? 1 : 0;
    const absl::Status sound = ValidateTimetable(table);
    ASSERT_TRUE(sound.ok()) << sound;
    const absl::StatusOr<Simulation> run = Simulate(table, request.costs);
    ASSERT_TRUE(run.ok()) << run.status();
    // A rank that waited on purpose need not wait any more once its order is known.
    EXPECT_LE(run->makespan, schedule.value * (1 + 1e-12));
    if (!WaitsOnPurpose(rules)) {
      EXPECT_NEAR(run->makespan, schedule.value, 1e-9);
    }
  }
  EXPECT_GT(by_due_time, 300);
  EXPECT_GT(limited, 300);
  EXPECT_GT(fusing, 100);
}

// A V of equal stages in less memory than any preference of F or I needs to keep all ranks busy,
// and than any limit of the micro-batches in flight needs.
TEST(Dispatch, DueTimesKeepRanksBusyInLittleMemory) {
  constexpr int kRanks = 16, kStages = 2 * kRanks, kMicroBatches = 200;
  OptimiseRequest request;
  request.placement = Placement::V(kRanks, 2);
  request.micro_batches = kMicroBatches;
  request.costs = StageCosts::Uniform(kStages, 1, 1, 1);
  request.costs.activation_bytes.assign(kStages, 1);
  request.costs.weight_grad_bytes.assign(kStages, 1);
  request.limits.bytes.assign(kRanks, 20);
  const absl::StatusOr<Problem> problem = MakeProblem(request);
  ASSERT_TRUE(problem.ok());
  const auto by_due_time = [&](double slowness) {
    return Dispatch(*problem, DueTimes{.slowness = slowness, .late_weights = 30, .patience = 0.3})
        .value;
  };
  double greedy = kNever;
  for (const bool forward_first : {false, true}) {
    greedy =
        std::min(greedy, Dispatch(*problem, Preferences{.forward_first = forward_first}).value);
  }
  EXPECT_LT(by_due_time(1.6), greedy * 0.9);
  // If a rank's stages could take all memory from each other, only one micro-batch at a time would
  // get through, which takes 32 * 2 * 200.
  for (const double slowness : {1.0, 1.3, 2.0, 2.5, 4.0}) {
    EXPECT_LT(by_due_time(slowness), greedy) << slowness;
  }
}

}  // namespace
}  // namespace sluice::optimise
