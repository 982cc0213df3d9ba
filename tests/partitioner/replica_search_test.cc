// Stages that several devices share, against every possible assignment, priced from scratch.
#include "partitioner/search/replica_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/planning/graph/graph_step.h"
#include "partitioner/planning/graph/replicated_plan.h"
#include "partitioner/search/search_options.h"
#include "schedules/generators/catalogue.h"
#include "tests/partitioner/graph_assignments.h"
#include "tests/partitioner/random_chain.h"
#include "tests/partitioner/random_graph.h"
#include "tests/sanitizers.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;

constexpr int kTrials = Trials(2'000, /*sanitized=*/200);

struct Trial {
  ProfileGraph graph;
  int devices = 1, micro_batches = 1;
  Link link;
  double memory = kInfinity;
  std::vector<Timetable> wide;
};

Timetable Wide(const char* schedule, int devices, int micro_batches) {
  return *GenerateSchedule(schedule, {.ranks = devices, .micro_batches = micro_batches});
}

Trial RandomTrial(Random& random) {
  Trial trial;
  trial.graph = RandomGraph(random, 1 + Below(random, 5), /*chain=*/Below(random, 3) == 0);
  trial.devices = 1 + Below(random, 5);
  const int counts[] = {1, 2, 4, 6, 8, 12};
  trial.micro_batches = counts[Below(random, 6)];
  if (Below(random, 3) > 0) trial.link.bandwidth = (1 + Below(random, 20)) * 1e9;
  if (Below(random, 3) == 0) trial.link.latency = Below(random, 5) * 1e-3;
  if (Below(random, 3) == 0) trial.memory = (10 + Below(random, 200)) * 1e6;
  const bool split = Below(random, 2) == 0;
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-2p"}) {
    const bool splits = schedule[0] == 'z';
    if (splits && !split) continue;
    if (splits && trial.micro_batches < trial.devices) continue;
    if (!splits && Below(random, 4) == 0 && !trial.wide.empty()) continue;
    trial.wide.push_back(Wide(schedule, trial.devices, trial.micro_batches));
  }
  return trial;
}

// The naive twin: every assignment of nodes to stages that sends nothing backwards, every number of
// devices per stage, every timetable, all priced from scratch.
class BruteForce {
 public:
  explicit BruteForce(const Trial& trial) : trial_(trial) {}

  double Best() {
    for (int stages = 1; stages <= trial_.devices; ++stages) {
      stages_ = stages;
      ForEachAssignment(trial_.graph, stages, [&](const std::vector<int>& stage_of) {
        stage_of_ = stage_of;
        replicas_.clear();
        Replicate(trial_.devices);
      });
    }
    return best_;
  }

 private:
  void Replicate(int left) {
    if (static_cast<int>(replicas_.size()) == stages_) {
      if (left == 0) {
        for (const Timetable& wide : trial_.wide) Price(wide);
      }
      return;
    }
    for (int r = 1; r <= left; ++r) {
      if (trial_.micro_batches % r != 0) continue;
      replicas_.push_back(r);
      Replicate(left - r);
      replicas_.pop_back();
    }
  }

  double Sum(double ProfileNode::*what, int stage) const {
    double sum = 0;
    for (size_t i = 0; i < stage_of_.size(); ++i) {
      if (stage_of_[i] == stage) sum += trial_.graph.nodes[i].*what;
    }
    return sum;
  }

  double SendSeconds(int cut) const {
    return trial_.link.Seconds(CrossingBytes(trial_.graph, stage_of_, cut));
  }

  double Duration(Op op, int stage) const {
    const double backward = Sum(&ProfileNode::backward_seconds, stage);
    if (op == Op::kForward) return Sum(&ProfileNode::forward_seconds, stage);
    return op == Op::kBackward ? backward : backward / 2;
  }

  // The row of member `k` of `stage`: every r-th micro-batch of the wide timetable's row.
  std::vector<Action> RowOf(const Timetable& wide, int stage, int k) const {
    const int row = std::accumulate(replicas_.begin(), replicas_.begin() + stage, 0);
    std::vector<Action> actions;
    for (const Action& action : wide.rows[row]) {
      if (IsCompute(action.op) && action.micro_batch % replicas_[stage] == k)
        actions.push_back(action);
    }
    return actions;
  }

  bool RowFits(const std::vector<Action>& row, int stage) const {
    int held = 0, most = 0;
    for (const Action& action : row) {
      if (action.op == Op::kForward) most = std::max(most, ++held);
      if (action.op == Op::kBackward || action.op == Op::kWeightGrad) --held;
    }
    return 4 * Sum(&ProfileNode::parameter_bytes, stage) +
               most * Sum(&ProfileNode::activation_bytes, stage) <=
           trial_.memory;
  }

  // The ends of actions by (is backward, stage, micro-batch), made later until nothing changes.
  void Price(const Timetable& wide) {
    const int m = trial_.micro_batches;
    std::vector<double> ends(2 * static_cast<size_t>(stages_) * static_cast<size_t>(m), 0);
    const auto end_of = [&](bool back, int stage, int b) -> double& {
      const auto row = static_cast<size_t>(back ? stages_ + stage : stage);
      return ends[row * static_cast<size_t>(m) + static_cast<size_t>(b)];
    };
    double makespan = 0;
    for (bool changed = true; changed;) {
      changed = false;
      makespan = 0;
      for (int stage = 0; stage < stages_; ++stage) {
        double last = 0;
        for (int k = 0; k < replicas_[stage]; ++k) {
          const std::vector<Action> row = RowOf(wide, stage, k);
          if (!RowFits(row, stage)) return;
          double clock = 0;
          for (const Action& action : row) {
            const bool back = action.op != Op::kForward;
            if (!back && stage > 0) {
              clock = std::max(
                  clock, end_of(false, stage - 1, action.micro_batch) + SendSeconds(stage - 1));
            }
            if (back && action.op != Op::kWeightGrad && stage + 1 < stages_) {
              clock =
                  std::max(clock, end_of(true, stage + 1, action.micro_batch) + SendSeconds(stage));
            }
            clock += Duration(action.op, stage);
            if (action.op == Op::kWeightGrad) continue;
            double& end = end_of(back, stage, action.micro_batch);
            changed = changed || clock > end;
            end = clock;
          }
          last = std::max(last, clock);
        }
        const int r = replicas_[stage];
        const double ring = trial_.link.latency + (r - 1.0) / r *
                                                      Sum(&ProfileNode::parameter_bytes, stage) /
                                                      trial_.link.bandwidth;
        makespan = std::max(makespan, last + (r == 1 ? 0 : 2 * ring));
      }
    }
    best_ = std::min(best_, makespan);
  }

  const Trial& trial_;
  int stages_ = 1;
  std::vector<int> stage_of_, replicas_;
  double best_ = kInfinity;
};

ReplicaAnswer Search(const Trial& trial, const SearchOptions& options) {
  const auto sets = Downsets::Enumerate(trial.graph, 1000);
  EXPECT_TRUE(sets.ok());
  const GraphWork work(trial.graph, *sets);
  const ReplicaProblem problem{.work = &work,
                               .devices = trial.devices,
                               .micro_batches = trial.micro_batches,
                               .machines = MachinesOf(trial.link, trial.memory),
                               .wide = trial.wide};
  return ReplicaSearch(problem).Run(options);
}

TEST(ReplicaSearch, EqualsBruteForceOnRandomGraphs) {
  Random random(17);
  int fits = 0, tight = 0, shared = 0;
  for (int i = 0; i < kTrials; ++i) {
    const Trial trial = RandomTrial(random);
    const double best = BruteForce(trial).Best();
    SearchOptions options;
    if (i % 3 == 1 && best < kInfinity) options.cutoff = best * (i % 2 == 0 ? 1.001 : 0.9);
    const ReplicaAnswer answer = Search(trial, options);
    const std::string name = absl::StrCat("trial ", i, ", ", trial.devices, " devices");
    ASSERT_TRUE(answer.complete) << name;
    if (best < options.cutoff) {
      ASSERT_NEAR(answer.step.seconds, best, kTolerance * best) << name;
      ASSERT_NEAR(answer.lower_bound, best, kTolerance * best) << name;
      shared += *std::max_element(answer.stages.replicas.begin(), answer.stages.replicas.end()) > 1;
    } else {
      ASSERT_GE(answer.step.seconds, best * (1 - kTolerance)) << name;
      ASSERT_LE(answer.lower_bound, best * (1 + kTolerance)) << name;
    }
    fits += best < kInfinity ? 1 : 0;
    tight += best == kInfinity ? 1 : 0;
  }
  EXPECT_GT(fits, kTrials / 2);
  EXPECT_GT(tight, kTrials / 100);
  EXPECT_GT(shared, kTrials / 10);
}

// The bound holds, whatever ends the search early.
TEST(ReplicaSearch, StopsWithABoundThatHolds) {
  Random random(6);
  for (int i = 0; i < kTrials / 4; ++i) {
    const Trial trial = RandomTrial(random);
    const double best = BruteForce(trial).Best();
    SearchOptions options;
    options.budget = 1 + Below(random, 3'000);
    int left = Below(random, 100);
    if (i % 3 == 0) {
      options.budget = std::numeric_limits<int64_t>::max();
      options.stop = [&left] { return --left < 0; };
    }
    if (i % 2 == 0) options.gap = 0.1;
    const ReplicaAnswer answer = Search(trial, options);
    ASSERT_LE(answer.lower_bound, best * (1 + kTolerance)) << i;
    ASSERT_GE(answer.step.seconds, best * (1 - kTolerance)) << i;
    if (answer.complete && best < kInfinity) {
      ASSERT_LE(answer.step.seconds, best * (1 + options.gap) * (1 + kTolerance)) << i;
    }
  }
}

GraphStepRequest RequestFor(const ProfileGraph& graph, int devices, int micro_batches) {
  GraphStepRequest request;
  request.graph = &graph;
  request.devices = devices;
  request.micro_batches = micro_batches;
  request.replicate = true;
  return request;
}

// Two operations, one of which takes three times as long and gets three devices.
TEST(ReplicatedPlan, GivesTheLongerStageMoreDevices) {
  ProfileGraph graph;
  for (const double seconds : {3e-3, 1e-3}) {
    ProfileNode node;
    node.id = absl::StrCat("node", graph.nodes.size());
    node.forward_seconds = seconds;
    node.backward_seconds = 2 * seconds;
    node.parameter_bytes = seconds == 3e-3 ? 1e6 : 1e9;  // the second one has too many to sum
    graph.nodes.push_back(node);
  }
  graph.nodes[0].users = {1};
  graph.nodes[1].sources = {0};
  GraphStepRequest request = RequestFor(graph, 4, 24);
  request.schedule = "1f1b";
  request.machines.link.bandwidth = 1e9;
  const auto plan = FindGraphStepPlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->stages.size(), 2u);
  EXPECT_EQ(plan->stages[0].replicas, 3);
  EXPECT_EQ(plan->stages[1].replicas, 1);
  EXPECT_EQ(plan->stages[1].rank, 3);
  EXPECT_TRUE(plan->optimal);
  EXPECT_DOUBLE_EQ(plan->bottleneck_seconds, 3e-3);
  // 24 micro-batches of 3 ms on the last device, after the first one's 3 ms and before its 6; then
  // two thirds of a megabyte each way.
  EXPECT_DOUBLE_EQ(plan->step_seconds, 24 * 3e-3 + 9e-3 + 2 * 2e-3 / 3);
}

// Where the time is over before any timetable with one device a stage was looked at, the bound
// holds for these as well.
TEST(ReplicatedPlan, StopsWithABoundThatHoldsWithADeviceAStage) {
  ProfileGraph graph;
  for (int i = 0; i < 8; ++i) {
    ProfileNode node;
    node.id = absl::StrCat("node", i);
    node.forward_seconds = 1e-3;
    node.backward_seconds = 2e-3;
    node.activation_bytes = 100;
    node.parameter_bytes = 1e8;
    if (i < 7) node.users = {i + 1};
    graph.nodes.push_back(node);
  }
  GraphStepRequest request = RequestFor(graph, 4, 4);
  request.machines.link.bandwidth = 1e9;
  const auto best = FindGraphStepPlan(request);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_FALSE(best->has_replicas());
  std::atomic<int> looks = 0;
  request.stop = [&looks] {
    ++looks;
    return false;
  };
  const auto sets = Downsets::Enumerate(graph, 1000);
  ASSERT_TRUE(sets.ok());
  double bound = 0;
  const auto replicated = FindReplicatedPlan(request, GraphWork(graph, *sets), &bound);
  ASSERT_TRUE(replicated.ok()) << replicated.status();
  ASSERT_GT(bound, best->step_seconds * (1 + kProofTolerance));
  std::atomic<int> left = looks.load();
  request.stop = [&left] { return --left < 0; };
  const auto plan = FindGraphStepPlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->step_seconds, replicated->step_seconds);
  EXPECT_LE(plan->lower_bound, best->step_seconds);
  EXPECT_GT(plan->lower_bound, 0);
  EXPECT_FALSE(plan->optimal);
}

// Fewer operations than devices; schedules with several stages per device.
TEST(ReplicatedPlan, SaysWhatCannotBe) {
  Random random(2);
  const ProfileGraph graph = RandomGraph(random, 3, /*chain=*/true);
  const auto plan = FindGraphStepPlan(RequestFor(graph, 8, 8));
  ASSERT_TRUE(plan.ok()) << plan.status();
  int devices = 0;
  for (const PlanStage& stage : plan->stages) devices += stage.replicas;
  EXPECT_EQ(devices, 8);
  GraphStepRequest request = RequestFor(graph, 8, 7);  // every stage must have 1 or 7 devices
  const auto seven_and_one = FindGraphStepPlan(request);
  ASSERT_TRUE(seven_and_one.ok()) << seven_and_one.status();
  EXPECT_EQ(seven_and_one->stages.size(), 2u);
  request.micro_batches = 5;
  EXPECT_THAT(std::string(FindGraphStepPlan(request).status().message()),
              testing::HasSubstr("divide"));
  request.micro_batches = 8;
  request.stop = [] { return true; };
  EXPECT_EQ(FindGraphStepPlan(request).status().code(), absl::StatusCode::kDeadlineExceeded);
  request = RequestFor(graph, 2, 8);
  request.machines.memory_limit = 1;
  EXPECT_EQ(FindGraphStepPlan(request).status().code(), absl::StatusCode::kFailedPrecondition);
  request.devices = 8;
  const absl::Status status = FindGraphStepPlan(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("even the leanest needs"));
}

class Profiles : public testing::TestWithParam<const char*> {};

TEST_P(Profiles, TakeNoLongerThanWithADeviceAStage) {
  const std::string file = absl::StrCat(GetParam(), ".txt");
  std::ifstream in(SharedFolder() / "data/profiles" / file);
  if (!in) GTEST_SKIP() << file << " is not here";
  std::stringstream text;
  text << in.rdbuf();
  const auto graph = ParseProfileGraph(text.str(), file);
  ASSERT_TRUE(graph.ok());
  GraphStepRequest request = RequestFor(*graph, 4, 16);
  request.schedule = "1f1b";
  request.machines.link.bandwidth = 1e9;
  const auto replicated = FindGraphStepPlan(request);
  ASSERT_TRUE(replicated.ok()) << replicated.status();
  request.replicate = false;
  const auto straight = FindGraphStepPlan(request);
  ASSERT_TRUE(straight.ok()) << straight.status();
  EXPECT_LE(replicated->step_seconds, straight->step_seconds * (1 + kTolerance));
  EXPECT_LE(replicated->lower_bound, straight->lower_bound * (1 + kTolerance));
  EXPECT_GE(replicated->step_seconds, 16 * replicated->bottleneck_seconds * (1 - kTolerance));
  EXPECT_LE(replicated->gap(), 0.05);
}

INSTANTIATE_TEST_SUITE_P(PipeDream, Profiles,
                         testing::Values("alexnet", "vgg16", "resnet50", "gnmt"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace sluice
