#include "partitioner/planning/graph/graph_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/cuts/some_cuts.h"
#include "partitioner/graph_problem.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/graph_partition.h"
#include "partitioner/search/graph_step_search.h"
#include "partitioner/search/search_options.h"
#include "tests/partitioner/graph_assignments.h"
#include "tests/partitioner/random_chain.h"
#include "tests/partitioner/random_graph.h"
#include "tests/sanitizers.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;

// Under sanitizers a smaller share of the same trials.
constexpr int kTrials = Trials(5'400, /*sanitized=*/600);

// The naive twin: every assignment of nodes to stages that sends nothing backwards and leaves no
// stage empty, priced from scratch and simulated.
class BruteForce {
 public:
  BruteForce(const ProfileGraph& graph, const Timetable& timetable, const Link& link, double memory)
      : graph_(graph), timetable_(timetable), link_(link), memory_(memory) {}

  // Least seconds of a step that fits; infinite where none does.
  double Best() {
    ForEachAssignment(graph_, stages(), [&](const std::vector<int>& stage_of) {
      stage_of_ = stage_of;
      Price();
    });
    return best_;
  }

 private:
  int stages() const { return timetable_.placement.stages(); }

  void Price() {
    StageCosts costs = StageCosts::Uniform(stages(), 0, 0, 0);
    std::vector<double> state(stages());
    costs.activation_bytes.assign(stages(), 0);
    for (size_t i = 0; i < stage_of_.size(); ++i) {
      const ProfileNode& node = graph_.nodes[i];
      const int stage = stage_of_[i];
      costs.forward[stage] += node.forward_seconds;
      costs.backward[stage] += node.backward_seconds;
      costs.input_grad[stage] += node.backward_seconds / 2;
      costs.weight_grad[stage] += node.backward_seconds / 2;
      costs.activation_bytes[stage] += node.activation_bytes;
      state[stage] += 4 * node.parameter_bytes;
    }
    costs.weight_grad_bytes = costs.activation_bytes;
    for (int cut = 0; cut + 1 < stages(); ++cut) costs.send[cut] = SendSeconds(cut);
    const auto run = Simulate(timetable_, costs, Detail::kSummary);
    if (!run.ok()) return;
    for (int rank = 0; rank < timetable_.placement.ranks(); ++rank) {
      double bytes = run->peak_bytes[rank];
      for (const int stage : timetable_.placement.StagesOf(rank)) bytes += state[stage];
      if (bytes > memory_) return;
    }
    best_ = std::min(best_, run->makespan);
  }

  double SendSeconds(int cut) const { return link_.Seconds(CrossingBytes(graph_, stage_of_, cut)); }

  const ProfileGraph& graph_;
  const Timetable& timetable_;
  const Link link_;
  const double memory_;
  std::vector<int> stage_of_;
  double best_ = kInfinity;
};

struct Trial {
  ProfileGraph graph;
  Timetable timetable;
  Link link;
  double memory = kInfinity;

  Machines machines() const { return MachinesOf(link, memory); }
};

Trial RandomTrial(Random& random) {
  Trial trial;
  const int nodes = 3 + Below(random, 6);
  trial.graph = RandomGraph(random, nodes, /*chain=*/false);
  trial.timetable = RandomTimetable(random, std::min(nodes, 4));
  if (Below(random, 3) > 0) trial.link.bandwidth = (1 + Below(random, 20)) * 1e9;
  if (Below(random, 3) == 0) trial.link.latency = Below(random, 5) * 1e-3;
  if (Below(random, 3) == 0) trial.memory = (20 + Below(random, 300)) * 1e6;
  return trial;
}

GraphStepAnswer Search(const Trial& trial, const Downsets& sets, const SearchOptions& options) {
  const GraphWork work(trial.graph, sets);
  const InFlight in_flight(trial.timetable);
  const GraphStepProblem problem{&work, &trial.timetable, &in_flight, trial.machines()};
  auto search = GraphStepSearch::Create(problem);
  EXPECT_TRUE(search.ok()) << search.status();
  return search.ok() ? (*search)->Run(options) : GraphStepAnswer();
}

TEST(GraphStepSearch, EqualsBruteForceOnRandomGraphs) {
  Random random(11);
  int fits = 0, tight = 0, chunked = 0;
  for (int i = 0; i < kTrials; ++i) {
    const Trial trial = RandomTrial(random);
    const double best = BruteForce(trial.graph, trial.timetable, trial.link, trial.memory).Best();
    const auto sets = Downsets::Enumerate(trial.graph, 1000);
    ASSERT_TRUE(sets.ok());
    SearchOptions options;
    // Sometimes with a cutoff: slightly above the best, or below it.
    if (i % 3 == 1 && best < kInfinity) options.cutoff = best * (i % 2 == 0 ? 1.001 : 0.9);
    const GraphStepAnswer answer = Search(trial, *sets, options);
    const std::string name = absl::StrCat("trial ", i, " ", trial.timetable.name);
    ASSERT_TRUE(answer.complete) << name;
    if (best < options.cutoff) {
      ASSERT_NEAR(answer.seconds, best, kTolerance * best) << name;
      ASSERT_NEAR(answer.lower_bound, best, kTolerance * best) << name;
    } else {
      ASSERT_GE(answer.seconds, best * (1 - kTolerance)) << name;
      ASSERT_LE(answer.lower_bound, best * (1 + kTolerance)) << name;
    }
    fits += best < kInfinity ? 1 : 0;
    tight += best == kInfinity ? 1 : 0;
    chunked += trial.timetable.placement.chunks() > 1 ? 1 : 0;
  }
  EXPECT_GT(fits, kTrials / 2);
  EXPECT_GT(tight, kTrials / 100);
  EXPECT_GT(chunked, kTrials / 10);
}

// The bound holds, whatever ends the search early.
TEST(GraphStepSearch, StopsWithABoundThatHolds) {
  Random random(5);
  for (int i = 0; i < kTrials / 6; ++i) {
    const Trial trial = RandomTrial(random);
    const double best = BruteForce(trial.graph, trial.timetable, trial.link, trial.memory).Best();
    const auto sets = Downsets::Enumerate(trial.graph, 1000);
    ASSERT_TRUE(sets.ok());
    SearchOptions options;
    options.budget = 1 + Below(random, 20'000);
    if (i % 2 == 0) options.gap = 0.1;
    // Or a clock that is over after so many looks.
    if (i % 3 == 0) {
      options = SearchOptions();
      options.stop = [looks = Below(random, 60)]() mutable { return --looks < 0; };
    }
    const GraphStepAnswer answer = Search(trial, *sets, options);
    ASSERT_LE(answer.lower_bound, best * (1 + kTolerance)) << i;
    ASSERT_GE(answer.seconds, best * (1 - kTolerance)) << i;
    if (answer.complete && best < kInfinity) {
      ASSERT_LE(answer.seconds, best * (1 + options.gap) * (1 + kTolerance)) << i;
    }
  }
}

// With something to beat, a clock that is over ends it before anything is measured over all cuts.
TEST(GraphStepSearch, DoesNothingOnceTheTimeIsOver) {
  Random random(7);
  for (int i = 0; i < 40; ++i) {
    const Trial trial = RandomTrial(random);
    const auto sets = Downsets::Enumerate(trial.graph, 1000);
    ASSERT_TRUE(sets.ok());
    const double best = BruteForce(trial.graph, trial.timetable, trial.link, trial.memory).Best();
    if (best == kInfinity) continue;
    SearchOptions options;
    options.cutoff = 2 * best;
    options.stop = [] { return true; };
    const GraphStepAnswer answer = Search(trial, *sets, options);
    ASSERT_EQ(answer.steps, 0) << i;
    ASSERT_LE(answer.lower_bound, best * (1 + kTolerance)) << i;
  }
}

// Whether a rank's stages fit is looked at stage by stage, also where nothing fits and hardly a
// chain is known: the budget counts that.
TEST(GraphStepSearch, LooksAtMemoryWithinItsBudget) {
  ProfileGraph graph;
  for (int i = 0; i < 24; ++i) {
    ProfileNode node;
    node.forward_seconds = node.backward_seconds = 1;
    node.activation_bytes = 10;
    if (i > 0) {
      node.sources = {i - 1};
      graph.nodes.back().users = {i};
    }
    graph.nodes.push_back(node);
  }
  Trial trial;
  trial.graph = graph;
  trial.timetable = *GenerateSchedule("interleaved", {.ranks = 1, .micro_batches = 8, .chunks = 8});
  trial.memory = 200;  // too little for all stages, and enough for most
  const auto sets = Downsets::Enumerate(trial.graph, 1000);
  ASSERT_TRUE(sets.ok());
  int64_t looks = 0;
  SearchOptions options;
  options.budget = 2'000'000;
  options.stop = [&looks] { return ++looks < 0; };
  const GraphStepAnswer answer = Search(trial, *sets, options);
  EXPECT_FALSE(answer.complete);
  EXPECT_GE(answer.steps, options.budget);
  EXPECT_LT(looks, options.budget / 64);  // eight stages in eight moments and more
}

std::shared_ptr<const CostTable> LayersOf(const ProfileGraph& graph) {
  std::vector<LayerCost> layers;
  for (const ProfileNode& node : graph.nodes) {
    LayerCost layer;
    layer.forward_seconds = node.forward_seconds;
    layer.input_grad_seconds = layer.weight_grad_seconds = node.backward_seconds / 2;
    layer.parameter_bytes = 4 * std::llround(node.parameter_bytes);
    layer.saved_bytes[0] = layer.weight_grad_bytes = std::llround(node.activation_bytes);
    layer.output_bytes = node.users.empty() ? 0 : std::llround(node.activation_bytes);
    layers.push_back(layer);
  }
  return *CostTable::CreateShared(std::move(layers));
}

TEST(GraphStepSearch, EqualsTheSearchOverLayersOnChains) {
  Random random(3);
  for (int i = 0; i < kTrials / 20; ++i) {
    Trial trial = RandomTrial(random);
    trial.graph = RandomGraph(random, 8 + Below(random, 16), /*chain=*/true);
    const auto layers = LayersOf(trial.graph);
    PartitionProblem problem;
    problem.machines = trial.machines();
    problem.machines.costs = layers;
    problem.timetable = &trial.timetable;
    const auto expected = FindExactPartition(problem);
    const auto sets = Downsets::Enumerate(trial.graph, 1000);
    ASSERT_TRUE(sets.ok());
    const GraphStepAnswer answer = Search(trial, *sets, {});
    if (!expected.ok()) {
      EXPECT_EQ(answer.seconds, kInfinity) << expected.status();
      continue;
    }
    ASSERT_TRUE(expected->optimal);
    ASSERT_TRUE(answer.complete) << i;
    ASSERT_NEAR(answer.seconds, expected->seconds, kTolerance * expected->seconds) << i;
  }
}

GraphStepRequest RequestFor(const ProfileGraph& graph, int devices, int micro_batches) {
  GraphStepRequest request;
  request.graph = &graph;
  request.devices = devices;
  request.micro_batches = micro_batches;
  return request;
}

// Every node once, sources no later than users; the fields add up.
void ExpectSound(const GraphStepRequest& request, const Plan& plan) {
  std::vector<int> stage_of(request.graph->nodes.size(), -1);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    EXPECT_FALSE(plan.stages[s].layers.empty());
    if (request.machines.limits_memory()) {
      EXPECT_LE(plan.peak_bytes[plan.stages[s].rank], request.machines.least_memory());
    }
    for (const int node : plan.stages[s].layers) {
      EXPECT_EQ(stage_of[node], -1);
      stage_of[node] = static_cast<int>(s);
    }
  }
  for (size_t i = 0; i < stage_of.size(); ++i) {
    ASSERT_GE(stage_of[i], 0);
    for (const int user : request.graph->nodes[i].users) EXPECT_LE(stage_of[i], stage_of[user]);
  }
  EXPECT_GT(plan.lower_bound, 0);
  EXPECT_GE(plan.step_seconds, plan.lower_bound);
  EXPECT_GE(plan.step_seconds, request.micro_batches * plan.bottleneck_seconds * (1 - kTolerance));
}

// "auto" is the best of the schedules that it tries, each searched by brute force.
TEST(GraphStepPlan, IsTheBestOfAllSchedules) {
  Random random(8);
  for (int i = 0; i < kTrials / 200; ++i) {
    const ProfileGraph graph = RandomGraph(random, 4 + Below(random, 3), /*chain=*/false);
    GraphStepRequest request = RequestFor(graph, 2, 4);
    request.machines.link.bandwidth = 1e10;
    const auto plan = FindGraphStepPlan(request);
    if (!plan.ok()) {  // a graph without work
      ADD_FAILURE() << plan.status();
      continue;
    }
    double best = kInfinity;
    for (const CatalogueEntry& entry : Catalogue()) {
      if (entry.updates != WeightUpdates::kFlush || entry.copies > 1) continue;
      for (int chunks = 1; chunks <= 3; ++chunks) {
        if (2 * chunks > static_cast<int>(graph.nodes.size())) continue;
        if (entry.chunk_step > 0 && chunks == 1) continue;
        const auto timetable =
            GenerateSchedule(entry.name, {.ranks = 2, .micro_batches = 4, .chunks = chunks});
        if (!timetable.ok()) continue;
        best =
            std::min(best, BruteForce(graph, *timetable, request.machines.link, kInfinity).Best());
      }
    }
    EXPECT_NEAR(plan->step_seconds, best, kTolerance * best) << plan->description;
    EXPECT_TRUE(plan->optimal);
  }
}

// With too many cuts to list, what the search proves holds over all of them.
TEST(GraphStepSearch, IsBoundedOverAllCutsWhereOnlySomeAreListed) {
  Random random(31);
  int some = 0, best_of_all = 0, above_even = 0;
  for (int i = 0; i < kTrials / 2; ++i) {
    const Trial trial = RandomTrial(random);
    const double best = BruteForce(trial.graph, trial.timetable, trial.link, trial.memory).Best();
    std::vector<std::vector<int>> stages(1, std::vector<int>(trial.graph.nodes.size()));
    std::iota(stages[0].begin(), stages[0].end(), 0);
    const Downsets sets =
        ListSomeCuts(trial.graph, stages, static_cast<int64_t>(trial.graph.nodes.size()) + 2);
    const GraphStepAnswer answer = Search(trial, sets, {});
    ASSERT_GE(answer.seconds, best * (1 - kTolerance)) << i;
    if (best == kInfinity) continue;
    ASSERT_LE(answer.lower_bound, best * (1 + kTolerance)) << i;
    if (answer.complete) {
      ASSERT_NEAR(answer.seconds, best, kTolerance * best) << i;
    }
    if (sets.all()) continue;
    ++some;
    best_of_all += answer.seconds <= best * (1 + kTolerance) ? 1 : 0;
    double work = 0;
    for (const ProfileNode& node : trial.graph.nodes) work += node.seconds();
    const Timetable& table = trial.timetable;
    const double even = table.micro_batches * work / table.placement.ranks();
    above_even += answer.lower_bound > even * (1 + kTolerance) ? 1 : 0;
  }
  EXPECT_GT(some, kTrials / 10);
  EXPECT_GT(best_of_all, some / 4);
  EXPECT_GT(above_even, some / 2);
}

// The whole way, with one device per stage and with several.
TEST(GraphStepPlan, IsBoundedOverAllCutsWhereOnlySomeAreListed) {
  Random random(33);
  int some = 0;
  for (int i = 0; i < kTrials / 100; ++i) {
    const ProfileGraph graph = RandomGraph(random, 5 + Below(random, 5), /*chain=*/false);
    GraphStepRequest request = RequestFor(graph, 2 + Below(random, 2), 4);
    request.machines.link.bandwidth = 1e10;
    request.replicate = Below(random, 2) == 0;
    if (Below(random, 3) == 0)
      request.machines.memory_limit = 100'000'000 + Below(random, 200'000'000);
    const auto best = FindGraphStepPlan(request);
    request.cut_limits = {.all = 1, .some = static_cast<int64_t>(graph.nodes.size()) + 2};
    const auto plan = FindGraphStepPlan(request);
    if (!plan.ok()) {
      EXPECT_NE(plan.status().code(), absl::StatusCode::kFailedPrecondition) << plan.status();
      EXPECT_TRUE(request.machines.limits_memory()) << plan.status();
      continue;
    }
    ASSERT_TRUE(best.ok()) << best.status();
    ExpectSound(request, *plan);
    EXPECT_GE(plan->step_seconds, best->step_seconds * (1 - kTolerance));
    EXPECT_LE(plan->lower_bound, best->step_seconds * (1 + kTolerance));
    some += plan->all_cuts ? 0 : 1;
    if (plan->optimal) {
      EXPECT_NEAR(plan->step_seconds, best->step_seconds, 1e-8);
    }
  }
  EXPECT_GT(some, kTrials / 400);
}

TEST(GraphStepPlan, NamesWhatIsWrong) {
  Random random(1);
  const ProfileGraph graph = RandomGraph(random, 6, /*chain=*/false);
  const auto message = [](const GraphStepRequest& request) {
    return std::string(FindGraphStepPlan(request).status().message());
  };
  EXPECT_THAT(message(RequestFor(graph, 9, 4)), testing::HasSubstr("6 nodes"));
  EXPECT_THAT(message(RequestFor(graph, 0, 4)), testing::HasSubstr("0 devices"));
  GraphStepRequest request = RequestFor(graph, 2, 4);
  request.schedule = "1f2b";
  EXPECT_THAT(message(request), testing::HasSubstr("1f2b"));
  request = RequestFor(graph, 2, 4);
  request.machines.memory_limit = 1;
  EXPECT_EQ(FindGraphStepPlan(request).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(request), testing::HasSubstr("per device"));
}

class Profiles : public testing::TestWithParam<const char*> {};

TEST_P(Profiles, ArePlannedBetweenTheirBounds) {
  const std::string file = absl::StrCat(GetParam(), ".txt");
  std::ifstream in(SharedFolder() / "data/profiles" / file);
  if (!in) GTEST_SKIP() << file << " is not here";
  std::stringstream text;
  text << in.rdbuf();
  const auto graph = ParseProfileGraph(text.str(), file);
  ASSERT_TRUE(graph.ok());
  const auto bottleneck = FindGraphPartition({.graph = &*graph, .devices = 4});
  ASSERT_TRUE(bottleneck.ok());
  GraphStepRequest request = RequestFor(*graph, 4, 16);
  request.schedule = "1f1b";
  request.machines.link.bandwidth = 12e9;
  const auto plan = FindGraphStepPlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectSound(request, *plan);
  EXPECT_TRUE(plan->optimal) << plan->gap();
  EXPECT_GE(plan->step_seconds, 16 * bottleneck->bottleneck_seconds * (1 - kTolerance));
  EXPECT_LE(plan->lower_bound, plan->step_seconds);
  // Four stages that each take the bottleneck, on links that are all busy.
  double seconds = 0;
  for (const ProfileNode& node : graph->nodes) seconds += node.seconds();
  EXPECT_LE(plan->step_seconds, 16 * seconds);
}

INSTANTIATE_TEST_SUITE_P(All, Profiles,
                         testing::Values("alexnet", "vgg16", "resnet50", "gnmt", "densenet121"),
                         [](const auto& profile) { return std::string(profile.param); });

}  // namespace
}  // namespace sluice
