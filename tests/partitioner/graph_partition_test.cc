#include "partitioner/graph_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "partitioner/downsets.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

std::filesystem::path Profiles() { return SharedFolder() / "data/profiles"; }

ProfileGraph RandomGraph(std::mt19937& random, int nodes) {
  const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  ProfileGraph graph;
  const int density = 1 + pick(2);
  for (int i = 0; i < nodes; ++i) {
    ProfileNode node;
    node.id = "node" + std::to_string(i);
    node.forward_seconds = pick(9) * 1e-3;  // often equal, now and then 0
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

// The naive twin: every assignment of nodes to stages that sends nothing backwards, with every
// number of replicas, priced from scratch.
class BruteForce {
 public:
  explicit BruteForce(const GraphRequest& request) : request_(request) {
    stage_of_.resize(request.graph->nodes.size());
  }

  double Best() {
    for (int stages = 1; stages <= request_.devices; ++stages) Assign(0, stages);
    return best_;
  }

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
      if (left == 0) best_ = std::min(best_, GraphBottleneck(request_, *stages));
      return;
    }
    for (int r = 1; r <= (request_.replicate ? left - after : 1); ++r) {
      (*stages)[stage].replicas = r;
      Replicate(stages, stage + 1, left - r);
    }
  }

  const GraphRequest& request_;
  std::vector<int> stage_of_;
  double best_ = std::numeric_limits<double>::infinity();
};

// A plan must hold every node once, sources no later than users, and cost what it says.
void ExpectSound(const GraphRequest& request, const GraphPlan& plan) {
  std::vector<int> stage_of(request.graph->nodes.size(), -1);
  int devices = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    EXPECT_FALSE(plan.stages[s].nodes.empty());
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

TEST(GraphPartition, IsAsGoodAsTheBestOfAll) {
  std::mt19937 random(20240607);
  for (int trial = 0; trial < 1500; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 1 + trial % 7);
    GraphRequest request{.graph = &graph, .devices = 1 + trial / 7 % 4};
    if (trial % 3 != 0) request.bandwidth = trial % 3 == 1 ? 1e9 : 5e9;
    request.replicate = trial % 2 == 0;
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

ProfileGraph Read(const std::string& name) {
  std::ifstream file(Profiles() / name);
  std::ostringstream text;
  text << file.rdbuf();
  const auto graph = ParseProfileGraph(text.str(), name);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : ProfileGraph();
}

// The two answers worked out in ../shared/data/profiles/README.md from PipeDream's own optimizer.
TEST(PipeDreamProfiles, GiveTheirKnownAnswers) {
  if (!std::filesystem::exists(Profiles())) GTEST_SKIP() << "no profiles beside the project";
  const ProfileGraph vgg = Read("vgg16.txt");
  EXPECT_TRUE(vgg.IsChain());
  const auto replicated =
      FindGraphPartition({.graph = &vgg, .devices = 4, .bandwidth = 1e9, .replicate = true});
  ASSERT_TRUE(replicated.ok()) << replicated.status();
  EXPECT_NEAR(replicated->bottleneck_seconds, 0.205520896, 1e-12);
  ASSERT_EQ(replicated->stages.size(), 2u);
  EXPECT_EQ(replicated->stages[0].nodes.size(), 17u);
  EXPECT_EQ(replicated->stages[0].replicas, 3);
  EXPECT_EQ(replicated->stages[1].nodes.size(), 23u);

  const ProfileGraph gnmt = Read("gnmt.txt");
  EXPECT_FALSE(gnmt.IsChain());
  const auto straight = FindGraphPartition({.graph = &gnmt, .devices = 4, .bandwidth = 12e9});
  ASSERT_TRUE(straight.ok()) << straight.status();
  EXPECT_NEAR(straight->bottleneck_seconds, 0.025868, 1e-9);
  EXPECT_EQ(straight->cuts + 1, 561);  // non-empty downsets, the whole graph among them
}

TEST(PipeDreamProfiles, EveryCutOfInceptionIsTried) {
  if (!std::filesystem::exists(Profiles())) GTEST_SKIP() << "no profiles beside the project";
  const ProfileGraph inception = Read("inception_v3.txt");
  double before = std::numeric_limits<double>::infinity();
  for (const int devices : {2, 4, 16}) {
    const GraphRequest request{.graph = &inception, .devices = devices, .bandwidth = 12e9};
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
