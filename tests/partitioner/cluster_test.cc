// Clusters, the links between their ranks, and collectives over them.
#include "partitioner/costs/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "partitioner/costs/collectives.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTwoKinds[] = R"({"name": "mixed",
  "devices": [{"device": "a100", "count": 8},
              {"device": {"name": "x", "fp32_flops": 1e12, "bf16_flops": 2e12,
                          "memory_bandwidth": 1e11}, "count": 4}],
  "devices_per_node": 4, "inside": {"bandwidth": 2e11, "latency": 1e-6},
  "between": {"bandwidth": 2e10, "latency": 5e-6}, "cards_per_node": 2})";

ClusterSpec Mixed() { return *ParseCluster(kTwoKinds, "c.json"); }

TEST(Cluster, ReadsKindsInOrder) {
  const ClusterSpec cluster = Mixed();
  EXPECT_EQ(cluster.device_count(), 12);
  EXPECT_EQ(cluster.device(7).name, "a100");
  EXPECT_EQ(cluster.device(8).name, "x");
  EXPECT_EQ(cluster.device(11).bf16_flops, 2e12);
  EXPECT_EQ(cluster.between.bandwidth, 2e10);
}

TEST(Cluster, IsReadAsItWasWritten) {
  const ClusterSpec cluster = Mixed();
  const std::string text = FormatCluster(cluster);
  const absl::StatusOr<ClusterSpec> again = ParseCluster(text, "again.json");
  ASSERT_TRUE(again.ok()) << again.status() << text;
  EXPECT_EQ(FormatCluster(*again), text);
  const ClusterSpec one = UniformCluster(*BuiltInDevice("h200"), 3);
  EXPECT_TRUE(ParseCluster(FormatCluster(one), "one.json").ok());
}

std::string Refusal(const std::string& from, const std::string& to) {
  std::string text = kTwoKinds;
  text.replace(text.find(from), from.size(), to);
  const absl::StatusOr<ClusterSpec> cluster = ParseCluster(text, "c.json");
  EXPECT_FALSE(cluster.ok()) << text;
  return std::string(cluster.status().message());
}

TEST(Cluster, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(Refusal("\"name\": \"mixed\"", "\"nome\": 1"), HasSubstr("c.json: field 'nome'"));
  EXPECT_THAT(Refusal("\"count\": 8", "\"count\": 0"), HasSubstr("field 'devices[0].count' is 0"));
  EXPECT_THAT(Refusal("\"count\": 8", "\"count\": 9999999"), HasSubstr("devices[0].count"));
  EXPECT_THAT(Refusal("\"a100\"", "\"a101\""), HasSubstr("field 'devices[0].device' is 'a101'"));
  // A processor is measured, and no cluster has this one.
  EXPECT_THAT(Refusal("\"a100\"", "\"cpu\""),
              AllOf(HasSubstr("is 'cpu'; expected a100, "), HasSubstr(", or an object"),
                    Not(HasSubstr(", cpu"))));
  EXPECT_THAT(Refusal("\"a100\"", "7"), HasSubstr("field 'devices[0].device' is 7"));
  EXPECT_THAT(Refusal("\"fp32_flops\": 1e12", "\"fp32_flops\": -1"),
              HasSubstr("c.json, devices[1].device: field 'fp32_flops' is -1"));
  EXPECT_THAT(Refusal("\"bandwidth\": 2e11", "\"bandwidth\": 0"),
              HasSubstr("field 'inside.bandwidth' is 0"));
  // As --bandwidth and --latency.
  EXPECT_THAT(Refusal("\"bandwidth\": 2e10", "\"bandwidth\": 1e-300"),
              HasSubstr("field 'between.bandwidth' is 1e-300; expected a number of at least 1"));
  EXPECT_THAT(Refusal("\"latency\": 5e-6", "\"latency\": 1e300"),
              HasSubstr("'between.latency' is 1e+300; expected a number of at most 1e+06"));
  EXPECT_THAT(Refusal("{\"bandwidth\": 2e10, \"latency\": 5e-6}", "3"),
              HasSubstr("field 'between' must be an object"));
  EXPECT_THAT(Refusal("\"between\"", "\"betwixt\""), HasSubstr("field 'betwixt' is not known"));
  EXPECT_THAT(Refusal("\"devices_per_node\": 4", "\"devices_per_node\": 0"),
              HasSubstr("devices_per_node"));
  EXPECT_FALSE(ParseCluster("", "c.json").ok());
  EXPECT_FALSE(ParseCluster("[1]", "c.json").ok());
  EXPECT_THAT(std::string(ParseCluster(R"({"name":"x","devices_per_node":2,
      "devices":[{"device":"a100","count":4}]})",
                                       "c.json")
                              .status()
                              .message()),
              HasSubstr("field 'between' is missing"));
}

// However many kinds there are: their sum is beyond 32 bits.
TEST(Cluster, HasAMostNumberOfDevices) {
  std::string kinds;
  for (int kind = 0; kind < 2048; ++kind) {
    absl::StrAppend(&kinds, kind > 0 ? "," : "", R"({"device": "a100", "count": 1048576})");
  }
  const auto cluster = ParseCluster(
      absl::StrCat(R"({"name": "x", "devices_per_node": 8, "devices": [)", kinds, "]}"), "c.json");
  EXPECT_THAT(std::string(cluster.status().message()),
              AllOf(HasSubstr("are more than 1048576"), Not(HasSubstr("between"))));
}

// Damaged files are refused with the name of the field, or read as a cluster that can be written
// and used.
TEST(Cluster, SurvivesGarbage) {
  std::mt19937 random(5);
  const std::string good = kTwoKinds;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    const absl::StatusOr<ClusterSpec> cluster = ParseCluster(text, "c.json");
    if (!cluster.ok()) {
      ASSERT_THAT(std::string(cluster.status().message()), ::testing::StartsWith("c.json"));
      continue;
    }
    ASSERT_TRUE(ParseCluster(FormatCluster(*cluster), "again.json").ok()) << text;
    ASSERT_GT(StageLink(*cluster, {.data = 2, .tensor = 2}, 1).bandwidth, 0);
  }
}

TEST(Links, GroupsInsideANodeUseItsLinkAndOthersShareCards) {
  const ClusterSpec cluster = Mixed();
  EXPECT_EQ(GroupLink(cluster, 4, 1).bandwidth, 2e11);
  EXPECT_EQ(GroupLink(cluster, 2, 2).bandwidth, 2e11);
  EXPECT_EQ(GroupLink(cluster, 8, 1).bandwidth, 4e10);  // one ring uses both cards
  EXPECT_EQ(GroupLink(cluster, 8, 1).latency, 5e-6);
  EXPECT_EQ(GroupLink(cluster, 3, 2).bandwidth, 1e10);   // in the middle node, two of either side
  EXPECT_EQ(GroupLink(cluster, 3, 4).bandwidth, 1e10);   // four rings per node
  EXPECT_EQ(GroupLink(cluster, 2, 16).bandwidth, 1e10);  // a node has no more rings than devices
}

// The same for groups that are placed one after the other, by counting the rings that leave each
// node.
Link NaiveGroupLink(const ClusterSpec& cluster, int ranks, int stride) {
  const int span = ranks * stride;
  std::map<int, int> rings;  // [node] that leave it
  int most = 0;
  for (int block = 0; block < std::max(1, cluster.device_count() / span); ++block) {
    for (int ring = 0; ring < stride; ++ring) {
      std::set<int> nodes;
      for (int rank = 0; rank < ranks; ++rank) {
        nodes.insert((block * span + rank * stride + ring) / cluster.devices_per_node);
      }
      if (nodes.size() == 1) continue;
      for (int node : nodes) most = std::max(most, ++rings[node]);
    }
  }
  if (most == 0) return cluster.inside;
  Link link = cluster.between;
  link.bandwidth *= static_cast<double>(cluster.cards_per_node) / most;
  link.bandwidth = std::min(link.bandwidth, cluster.inside.bandwidth);
  return link;
}

// Of eight devices a node, ranks of six cross into the next node, wherever the first one starts.
TEST(Links, GroupsThatStraddleNodesUseTheirCards) {
  ClusterSpec cluster = Mixed();
  cluster.devices_per_node = 8;
  cluster.cards_per_node = 1;
  cluster.counts = {8, 8};
  EXPECT_EQ(GroupLink(cluster, 4, 1).bandwidth, 2e11);
  EXPECT_EQ(GroupLink(cluster, 6, 1).bandwidth, 2e10);
  EXPECT_EQ(GroupLink(cluster, 6, 1).latency, 5e-6);
  cluster.counts = {4, 2};  // one node
  EXPECT_EQ(GroupLink(cluster, 3, 1).bandwidth, 2e11);
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    cluster.devices_per_node = 1 + static_cast<int>(random() % 9);
    cluster.cards_per_node = 1 + static_cast<int>(random() % 4);
    cluster.counts = {1 + static_cast<int>(random() % 40), 1 + static_cast<int>(random() % 40)};
    const int ranks = 2 + static_cast<int>(random() % 8);
    const int stride = 1 + static_cast<int>(random() % 8);
    const Link expected = NaiveGroupLink(cluster, ranks, stride);
    const Link link = GroupLink(cluster, ranks, stride);
    ASSERT_EQ(link.bandwidth, expected.bandwidth)
        << ranks << " ranks " << stride << " apart, " << cluster.devices_per_node << " a node of "
        << cluster.device_count();
    ASSERT_EQ(link.latency, expected.latency);
  }
}

// The link between two stages, by counting how many ranks send over the cards of each node.
Link NaiveLink(const ClusterSpec& cluster, int peers, int rank, int to) {
  std::map<int, int> senders;
  int most = 0;
  for (int i = 0; i < peers; ++i) {
    const int node = (rank * peers + i) / cluster.devices_per_node;
    if ((to * peers + i) / cluster.devices_per_node != node) most = std::max(most, ++senders[node]);
  }
  if (most == 0) return cluster.inside;
  Link link = cluster.between;
  link.bandwidth *= std::min(1.0, static_cast<double>(cluster.cards_per_node) / most);
  link.bandwidth = std::min(link.bandwidth, cluster.inside.bandwidth);
  return link;
}

TEST(Links, StagesShareTheCardsOfTheirNode) {
  ClusterSpec cluster = Mixed();
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    cluster.devices_per_node = 1 + static_cast<int>(random() % 9);
    cluster.cards_per_node = 1 + static_cast<int>(random() % 4);
    Parallel parallel;
    parallel.data = 1 + static_cast<int>(random() % 5);
    parallel.tensor = 1 + static_cast<int>(random() % 5);
    const int from = static_cast<int>(random() % 7), to = static_cast<int>(random() % 7);
    const Link expected = NaiveLink(cluster, parallel.ranks(), from, to);
    const Link link = RankLink(cluster, parallel, from, to);
    ASSERT_EQ(link.bandwidth, expected.bandwidth)
        << parallel.ranks() << " ranks a stage, " << cluster.devices_per_node << " a node";
    ASSERT_EQ(link.latency, expected.latency);
    ASSERT_EQ(StageLink(cluster, parallel, from).bandwidth,
              RankLink(cluster, parallel, from, from + 1).bandwidth);
  }
}

TEST(Links, RanksHoldTheFirstDevicesOfTheirKindThatAreLeft) {
  ClusterSpec cluster = Mixed();
  cluster.counts = {4, 2};
  using ::testing::ElementsAre;
  EXPECT_THAT(GroupsOfRanks(cluster, {0, 0, 0, 0, 1, 1}, 1), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(GroupsOfRanks(cluster, {1, 0, 0, 1, 0, 0}, 1), ElementsAre(4, 0, 1, 5, 2, 3));
  EXPECT_THAT(GroupsOfRanks(cluster, {0, 1, 0}, 2), ElementsAre(0, 2, 1));
}

TEST(Collectives, RingsMoveAllButOwnShare) {
  const Link link{1e-3, 100};
  EXPECT_DOUBLE_EQ(CollectiveSeconds(Collective::kAllGather, 400, 4, link), 1e-3 + 3);
  EXPECT_DOUBLE_EQ(CollectiveSeconds(Collective::kReduceScatter, 400, 4, link), 1e-3 + 3);
  EXPECT_DOUBLE_EQ(CollectiveSeconds(Collective::kAllReduce, 400, 4, link), 2e-3 + 6);
  EXPECT_EQ(CollectiveSeconds(Collective::kAllReduce, 400, 1, link), 0);
}

TEST(Parallel, NamesWhatMakesNoSense) {
  EXPECT_TRUE(ValidateParallel({}).ok());
  EXPECT_THAT(std::string(ValidateParallel({.data = 0}).message()), HasSubstr("data"));
  EXPECT_THAT(std::string(ValidateParallel({.data = 1, .tensor = -1}).message()),
              HasSubstr("tensor"));
  EXPECT_FALSE(ValidateParallel({.data = 1, .tensor = 1, .sequence = false, .zero = 3}).ok());
}

}  // namespace
}  // namespace sluice
