#include "partitioner/search/graph_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/graph_plan.h"
#include "tests/partitioner/profiles.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

ProfileGraph RandomGraph(std::mt19937& random, int nodes) {
  const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  ProfileGraph graph;
  const int density = 1 + pick(2);
  for (int i = 0; i < nodes; ++i) {
    ProfileNode node;
    node.id = "node" + std::to_string(i);
    node.forward_seconds = pick(9) * 1e-3;  // often equal, sometimes 0
    node.backward_seconds = pick(9) * 1e-3;
    node.activation_bytes = pick(20) * 1e6;
    node.parameter_bytes = pick(5) * 1e6;
    for (int from = 0; from < i; ++from) {
      if (pick(2) < density && pick(1) == 0) node.sources.push_back(from);
    }
    for (const int from : node.sources) graph.nodes[from].users.push_back(i);
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

constexpr int kTrials = Trials(12'000, /*sanitized=*/2'000);

// The naive twin: every assignment of nodes to stages that sends nothing backwards, with every
// number of members of each stage, priced from scratch.
class BruteForce {
 public:
  explicit BruteForce(const GraphRequest& request) : request_(request) {
    stage_of_.resize(request.graph->nodes.size());
  }

  // The least bottleneck within the request's memory; infinite where nothing fits.
  double Best() {
    for (int stages = 1; stages <= request_.devices; ++stages) Assign(0, stages);
    return best_;
  }
  // Valid after Best(): the least memory with which some partition fits.
  double least_bytes() const { return least_bytes_; }

 private:
  void Assign(size_t node, int stages) {
    if (node == stage_of_.size()) return Price(stages);
    int first = 0;
    for (const int source : request_.graph->nodes[node].sources) {
      first = std::max(first, stage_of_[source]);
    }
    for (stage_of_[node] = first; stage_of_[node] < stages; ++stage_of_[node]) {
      Assign(node + 1, stages);
    }
  }

  void Price(int count) {
    std::vector<GraphStage> stages(count);
    for (size_t i = 0; i < stage_of_.size(); ++i) {
      const ProfileNode& node = request_.graph->nodes[i];
      GraphStage& stage = stages[stage_of_[i]];
      stage.nodes.push_back(static_cast<int>(i));
      stage.forward_seconds += node.forward_seconds;
      stage.backward_seconds += node.backward_seconds;
      stage.parameter_bytes += node.parameter_bytes;
      stage.activation_bytes += node.activation_bytes;
      int last_user = stage_of_[i];
      for (const int user : node.users) last_user = std::max(last_user, stage_of_[user]);
      for (int cut = stage_of_[i]; cut < last_user; ++cut) {
        stages[cut].send_bytes += node.activation_bytes;
      }
    }
    for (const GraphStage& stage : stages) {
      if (stage.nodes.empty()) return;
    }
    Replicate(&stages, 0, request_.devices);
  }

  void Replicate(std::vector<GraphStage>* stages, size_t stage, int left) {
    const auto after = static_cast<int>(stages->size() - stage) - 1;
    if (after < 0) {
      if (left == 0) Judge(stages);
      return;
    }
    for (int r = 1; r <= (request_.replicate ? left - after : 1); ++r) {
      (*stages)[stage].replicas = r;
      Replicate(stages, stage + 1, left - r);
    }
  }

  void Judge(std::vector<GraphStage>* stages) {
    double bytes = 0;
    int before = 0;
    for (GraphStage& stage : *stages) {
      const double share = static_cast<double>(request_.devices - before) / stage.replicas;
      stage.in_flight = static_cast<int>(std::ceil(share));
      bytes = std::max(bytes, 4 * stage.parameter_bytes + stage.in_flight * stage.activation_bytes);
      before += stage.replicas;
    }
    least_bytes_ = std::min(least_bytes_, bytes);
    if (bytes <= request_.memory()) best_ = std::min(best_, GraphBottleneck(request_, *stages));
  }

  const GraphRequest& request_;
  std::vector<int> stage_of_;
  double best_ = std::numeric_limits<double>::infinity();
  double least_bytes_ = std::numeric_limits<double>::infinity();
};

// A plan must contain every node once, with sources no later than users, and have the stated costs.
void ExpectSound(const GraphRequest& request, const GraphPlan& plan) {
  std::vector<int> stage_of(request.graph->nodes.size(), -1);
  int devices = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    EXPECT_FALSE(plan.stages[s].nodes.empty());
    const double from_here = request.devices - devices;
    EXPECT_EQ(plan.stages[s].in_flight, std::ceil(from_here / plan.stages[s].replicas));
    EXPECT_LE(plan.stages[s].peak_bytes(), request.memory());
    devices += plan.stages[s].replicas;
    for (const int node : plan.stages[s].nodes) {
      EXPECT_EQ(stage_of[node], -1);
      stage_of[node] = static_cast<int>(s);
    }
  }
  EXPECT_EQ(devices, request.devices);
  for (size_t i = 0; i < stage_of.size(); ++i) {
    ASSERT_GE(stage_of[i], 0);
    for (const int user : request.graph->nodes[i].users) EXPECT_LE(stage_of[i], stage_of[user]);
  }
  EXPECT_DOUBLE_EQ(GraphBottleneck(request, plan.stages), plan.bottleneck_seconds);
}

// Every size with every number of devices, bandwidth and both kinds of stages.
GraphRequest RequestOf(int trial, const ProfileGraph& graph) {
  constexpr double kBandwidths[] = {std::numeric_limits<double>::infinity(), 12e9, 5e9, 1e9, 1e8};
  GraphRequest request;
  request.graph = &graph;
  request.devices = 1 + trial / 7 % 5;
  request.machines.link.bandwidth = kBandwidths[trial / 35 % 5];
  request.replicate = trial % 2 == 0;
  return request;
}

TEST(GraphPartition, IsAsGoodAsTheBestOfAll) {
  std::mt19937 random(20240607);
  for (int trial = 0; trial < kTrials; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 1 + trial % 7);
    const GraphRequest request = RequestOf(trial, graph);
    const auto plan = FindGraphPartition(request);
    if (!request.replicate && static_cast<int>(graph.nodes.size()) < request.devices) {
      EXPECT_FALSE(plan.ok());
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExpectSound(request, *plan);
    const double best = BruteForce(request).Best();
    EXPECT_NEAR(plan->bottleneck_seconds, best, 1e-11) << "trial " << trial;
  }
}

// From slightly less than the least memory that works to far more.
TEST(GraphPartition, IsAsGoodAsTheBestThatFits) {
  std::mt19937 random(20260101);
  int limited = 0, refused = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 1 + trial % 7);
    GraphRequest request = RequestOf(trial, graph);
    if (!request.replicate && static_cast<int>(graph.nodes.size()) < request.devices) continue;
    BruteForce unlimited(request);
    const double best = unlimited.Best();
    const double least = unlimited.least_bytes();
    if (least < 1) continue;  // only nodes that need no memory
    const int choice = std::uniform_int_distribution<int>(0, 9)(random);
    request.machines.memory_limit = static_cast<int64_t>(
        choice == 0 ? std::max(1.0, least - 1) : std::ceil(least * (1 + 0.1 * (choice - 1))));
    const auto plan = FindGraphPartition(request);
    if (request.memory() < least) {
      ASSERT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition) << plan.status();
      EXPECT_THAT(std::string(plan.status().message()),
                  ::testing::HasSubstr("needs " + DescribeMemory(static_cast<int64_t>(least))));
      ++refused;
      continue;
    }
    ASSERT_TRUE(plan.ok()) << "trial " << trial << ": " << plan.status();
    ExpectSound(request, *plan);
    const double expected = BruteForce(request).Best();
    EXPECT_NEAR(plan->bottleneck_seconds, expected, 1e-11) << "trial " << trial;
    limited += expected > best + 1e-11 ? 1 : 0;
  }
  EXPECT_GT(limited, kTrials / 10);  // memory does matter
  EXPECT_GT(refused, kTrials / 40);
}

// Whenever the search is stopped, what it has is a partition, and what it has proved holds.
TEST(GraphPartition, IsBoundedWhereItIsStopped) {
  std::mt19937 random(5);
  int unproved = 0, stopped_at_best = 0, without = 0, proved = 0;
  for (int trial = 0; trial < kTrials / 4; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 3 + trial % 5);
    GraphRequest request = RequestOf(trial, graph);
    if (!request.replicate && static_cast<int>(graph.nodes.size()) < request.devices) continue;
    if (trial % 3 == 0) request.machines.memory_limit = 20'000'000 + trial % 100 * 1'000'000;
    if (trial % 4 == 0) request.cut_limits = {.all = 1, .some = 1000};
    const double best = BruteForce(request).Best();
    int left = std::uniform_int_distribution<int>(0, trial % 2 == 0 ? 3 : 200)(random);
    request.stop = [&left] { return --left < 0; };
    const auto plan = FindGraphPartition(request);
    if (!plan.ok()) {
      EXPECT_TRUE(plan.status().code() == absl::StatusCode::kDeadlineExceeded ||
                  (plan.status().code() == absl::StatusCode::kFailedPrecondition &&
                   best == std::numeric_limits<double>::infinity()))
          << plan.status();
      EXPECT_TRUE(request.machines.limits_memory());
      ++without;
      continue;
    }
    ExpectSound(request, *plan);
    EXPECT_GE(plan->bottleneck_seconds, best * (1 - 1e-9));
    EXPECT_LE(plan->lower_bound, best * (1 + 1e-9)) << "trial " << trial;
    const bool is_best = plan->bottleneck_seconds <= best * (1 + 1e-9);
    const bool is_proved = plan->lower_bound >= plan->bottleneck_seconds * (1 - 1e-9);
    unproved += is_best ? 0 : 1;
    stopped_at_best += is_best && !is_proved ? 1 : 0;
    proved += is_proved ? 1 : 0;
  }
  EXPECT_GT(unproved, 10);
  EXPECT_GT(stopped_at_best, 10);
  EXPECT_GT(proved, 10);
  EXPECT_GT(without, 10);
}

// With too many cuts to list, what is found is a partition, and what is proved holds over all.
TEST(GraphPartition, IsBoundedOverAllCutsWhereOnlySomeAreListed) {
  std::mt19937 random(77);
  int some = 0, best_of_all = 0, unproved = 0;
  for (int trial = 0; trial < kTrials / 4; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 3 + trial % 5);
    GraphRequest request = RequestOf(trial, graph);
    if (!request.replicate && static_cast<int>(graph.nodes.size()) < request.devices) continue;
    if (trial % 3 == 0) request.machines.memory_limit = 20'000'000 + trial % 100 * 1'000'000;
    request.cut_limits = {.all = 1, .some = static_cast<int64_t>(graph.nodes.size()) + 2};
    const double best = BruteForce(request).Best();
    const auto plan = FindGraphPartition(request);
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kDeadlineExceeded) << plan.status();
      EXPECT_TRUE(request.machines.limits_memory());
      ++unproved;
      continue;
    }
    ExpectSound(request, *plan);
    EXPECT_GE(plan->bottleneck_seconds, best * (1 - 1e-9));
    EXPECT_LE(plan->lower_bound, best * (1 + 1e-9)) << "trial " << trial;
    some += plan->all_cuts ? 0 : 1;
    best_of_all += plan->bottleneck_seconds <= best * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GT(some, kTrials / 20);
  EXPECT_GT(best_of_all, some / 2);
  EXPECT_GT(unproved, 0);
}

// Eight branches of six operations between two others: 7^8 cuts and more.
ProfileGraph WideGraph() {
  ProfileGraph graph;
  const auto add = [&graph](std::vector<int> sources) {
    const auto number = static_cast<int>(graph.nodes.size());
    ProfileNode node;
    node.id = absl::StrCat("node", number);
    node.forward_seconds = 1e-3 * (1 + number % 5);
    node.backward_seconds = 2e-3 * (1 + number % 3);
    node.activation_bytes = 1e6 * (1 + number % 7);
    node.parameter_bytes = 1e6 * (number % 4);
    for (const int source : sources) graph.nodes[source].users.push_back(number);
    node.sources = std::move(sources);
    graph.nodes.push_back(std::move(node));
    return number;
  };
  std::vector<int> ends;
  const int first = add({});
  for (int branch = 0; branch < 8; ++branch) {
    int last = first;
    for (int i = 0; i < 6; ++i) last = add({last});
    ends.push_back(last);
  }
  add(ends);
  return graph;
}

TEST(GraphPartition, AnswersAGraphWithTooManyCuts) {
  const ProfileGraph graph = WideGraph();
  GraphRequest request;
  request.graph = &graph;
  request.devices = 4;
  request.machines.link.bandwidth = 12e9;
  if (kSanitized) request.cut_limits = {.all = 40'000, .some = 5'000};
  const auto plan = FindGraphPartition(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectSound(request, *plan);
  EXPECT_FALSE(plan->all_cuts);
  EXPECT_LE(plan->cuts, request.cut_limits.some);
  EXPECT_LE(plan->lower_bound, plan->bottleneck_seconds);
  EXPECT_LE(plan->bottleneck_seconds, plan->lower_bound * 1.02);
}

TEST(GraphPartition, NamesTheStageThatDoesNotFit) {
  ProfileGraph graph;
  graph.nodes.resize(3);
  for (int i = 0; i < 3; ++i) {
    ProfileNode& node = graph.nodes[i];
    node.id = absl::StrCat("node", i + 1);
    node.parameter_bytes = i == 1 ? 1e9 : 1e6;
    if (i > 0) node.sources = {i - 1};
    if (i < 2) node.users = {i + 1};
  }
  GraphRequest request;
  request.graph = &graph;
  request.devices = 3;
  request.machines.memory_limit = 3'000'000'000;
  const absl::Status status = FindGraphPartition(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(status.message());
  EXPECT_THAT(message, ::testing::HasSubstr("fits into 2.79 GiB (3000000000 bytes)"));
  EXPECT_THAT(message, ::testing::HasSubstr("needs 3.73 GiB (4000000000 bytes)"));
  EXPECT_THAT(message, ::testing::HasSubstr("stage 1 (node2)"));
  request.machines.memory_limit = 4'000'000'000;
  EXPECT_TRUE(FindGraphPartition(request).ok());
}

TEST(GraphPartition, RefusesMoreReplicasThanItCanSearch) {
  std::mt19937 random(1);
  const ProfileGraph graph = RandomGraph(random, 3);
  GraphRequest request;
  request.graph = &graph;
  request.devices = 64'000'000;
  request.machines.link.bandwidth = 1e9;
  request.replicate = true;
  const absl::Status status = FindGraphPartition(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("not 64000000"));
}

TEST(Downsets, AreAllSetsThatHoldTheirSources) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 1 + trial % 10);
    const auto sets = Downsets::Enumerate(graph, 1 << 12);
    ASSERT_TRUE(sets.ok());
    int64_t expected = 0;
    const auto count = static_cast<int>(graph.nodes.size());
    for (int members = 0; members < 1 << count; ++members) {
      bool closed = true;
      for (int node = 0; node < count; ++node) {
        if ((members >> node & 1) == 0) continue;
        for (const int source : graph.nodes[node].sources) {
          closed = closed && (members >> source & 1) != 0;
        }
      }
      expected += closed ? 1 : 0;
    }
    EXPECT_EQ(sets->size(), expected);
    EXPECT_EQ(sets->NodesBetween(0, sets->size() - 1).size(), graph.nodes.size());
    for (int set = 0; set < sets->size(); ++set) {
      for (const int smaller : sets->Smaller(set)) {
        EXPECT_LT(smaller, set);
        EXPECT_EQ(sets->NodesBetween(smaller, set).size(), 1u);
      }
    }
    EXPECT_FALSE(Downsets::Enumerate(graph, sets->size() - 2).ok());
  }
}

// The two answers that ../shared/data/profiles/README.md derives from PipeDream's own optimizer.
TEST(PipeDreamProfiles, GiveTheirKnownAnswers) {
  if (!std::filesystem::exists(Profiles())) GTEST_SKIP() << "no profiles beside the project";
  const ProfileGraph vgg = ReadProfile("vgg16.txt");
  EXPECT_TRUE(vgg.IsChain());
  GraphRequest request;
  request.graph = &vgg;
  request.devices = 4;
  request.machines.link.bandwidth = 1e9;
  request.replicate = true;
  const auto replicated = FindGraphPartition(request);
  ASSERT_TRUE(replicated.ok()) << replicated.status();
  EXPECT_NEAR(replicated->bottleneck_seconds, 0.205520896, 1e-12);
  ASSERT_EQ(replicated->stages.size(), 2u);
  EXPECT_EQ(replicated->stages[0].nodes.size(), 17u);
  EXPECT_EQ(replicated->stages[0].replicas, 3);
  EXPECT_EQ(replicated->stages[1].nodes.size(), 23u);

  const ProfileGraph gnmt = ReadProfile("gnmt.txt");
  EXPECT_FALSE(gnmt.IsChain());
  request.graph = &gnmt;
  request.machines.link.bandwidth = 12e9;
  request.replicate = false;
  const auto straight = FindGraphPartition(request);
  ASSERT_TRUE(straight.ok()) << straight.status();
  EXPECT_NEAR(straight->bottleneck_seconds, 0.025868, 1e-9);
  EXPECT_EQ(straight->cuts + 1, 561);  // non-empty downsets, the whole graph among them
}

TEST(PipeDreamProfiles, EveryCutOfInceptionIsTried) {
  if (!std::filesystem::exists(Profiles())) GTEST_SKIP() << "no profiles beside the project";
  const ProfileGraph inception = ReadProfile("inception_v3.txt");
  double before = std::numeric_limits<double>::infinity();
  for (const int devices : {2, 4, 16}) {
    GraphRequest request;
    request.graph = &inception;
    request.devices = devices;
    request.machines.link.bandwidth = 12e9;
    const auto plan = FindGraphPartition(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExpectSound(request, *plan);
    EXPECT_EQ(plan->cuts + 1, 221564);
    EXPECT_LE(plan->bottleneck_seconds, before);
    before = plan->bottleneck_seconds;
  }
}

}  // namespace
}  // namespace sluice
