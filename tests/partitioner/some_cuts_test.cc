#include "partitioner/cuts/some_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "models/spec/profile_graph.h"
#include "partitioner/cuts/downsets.h"
#include "tests/partitioner/random_chain.h"
#include "tests/partitioner/random_graph.h"

namespace sluice {
namespace {

std::vector<int> Members(const Downsets& sets, int set) { return sets.NodesBetween(0, set); }

// The nodes of a random graph, which stand in an order with sources first, in runs.
std::vector<std::vector<int>> RandomRuns(std::mt19937_64& random, int nodes) {
  std::vector<std::vector<int>> runs(1);
  for (int node = 0; node < nodes; ++node) {
    if (!runs.back().empty() && Below(random, 2) == 0) runs.emplace_back();
    runs.back().push_back(node);
  }
  return runs;
}

bool HasWholeBlocks(const std::vector<int>& members, const std::vector<std::vector<int>>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(), [&](const std::vector<int>& block) {
    const auto inside = std::count_if(block.begin(), block.end(), [&](int node) {
      return std::binary_search(members.begin(), members.end(), node);
    });
    return inside == 0 || inside == static_cast<ptrdiff_t>(block.size());
  });
}

TEST(Downsets, OfBlocksAreAllThoseWithWholeBlocks) {
  Random random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 1 + trial % 9, /*chain=*/false);
    const auto blocks = RandomRuns(random, static_cast<int>(graph.nodes.size()));
    const auto all = Downsets::Enumerate(graph, 1 << 12);
    const auto some = Downsets::OfBlocks(graph, blocks, 1 << 12);
    ASSERT_TRUE(all.ok() && some.ok());
    EXPECT_TRUE(all->all());
    EXPECT_EQ(some->all(), blocks.size() == graph.nodes.size());
    int expected = 0;
    for (int set = 0; set < all->size(); ++set) {
      if (!HasWholeBlocks(Members(*all, set), blocks)) continue;
      ++expected;
      // The same set costs the same.
      int same = 0;
      while (same < some->size() && Members(*some, same) != Members(*all, set)) ++same;
      ASSERT_LT(same, some->size());
      EXPECT_EQ(some->seconds(same), all->seconds(set));
      EXPECT_EQ(some->parameter_bytes(same), all->parameter_bytes(set));
      EXPECT_EQ(some->activation_bytes(same), all->activation_bytes(set));
      EXPECT_EQ(some->cut_bytes(same), all->cut_bytes(set));
    }
    EXPECT_EQ(some->size(), expected);
  }
}

// The naive twin of counting: every subset of the nodes is looked at.
int64_t CountBySubsets(const ProfileGraph& graph) {
  int64_t sets = 0;
  for (uint32_t set = 0; set < uint32_t{1} << graph.nodes.size(); ++set) {
    const auto has_sources = [&](size_t node) {
      const std::vector<int>& sources = graph.nodes[node].sources;
      return std::all_of(sources.begin(), sources.end(),
                         [set](int source) { return (set >> source & 1) != 0; });
    };
    bool closed = true;
    for (size_t node = 0; node < graph.nodes.size(); ++node)
      closed &= (set >> node & 1) == 0 || has_sources(node);
    sets += closed ? 1 : 0;
  }
  return sets;
}

TEST(Downsets, AreListedUpToTheLimitAndNoFurther) {
  Random random(8);
  for (int trial = 0; trial < 100; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 1 + trial % 10, /*chain=*/trial % 7 == 0);
    const int64_t count = CountBySubsets(graph);
    const auto all = Downsets::Enumerate(graph, count);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(all->size(), count);
    EXPECT_TRUE(absl::IsResourceExhausted(Downsets::Enumerate(graph, count - 1).status()));
    const auto blocks = RandomRuns(random, static_cast<int>(graph.nodes.size()));
    const auto some = Downsets::OfBlocks(graph, blocks, count);
    ASSERT_TRUE(some.ok()) << some.status();
    const absl::Status fewer = Downsets::OfBlocks(graph, blocks, some->size() - 1).status();
    EXPECT_TRUE(absl::IsResourceExhausted(fewer));
  }
}

// Too many are refused before any is kept: these would not fit into memory.
TEST(Downsets, OfManyNodesAreRefusedAtOnce) {
  ProfileGraph graph;
  graph.nodes.resize(20'000);
  EXPECT_TRUE(absl::IsResourceExhausted(Downsets::Enumerate(graph, 4'000'000).status()));
}

// What the searches rely on: steps to the next smaller sets lead to every set inside.
TEST(Downsets, OfBlocksReachAllThatLiesInside) {
  Random random(6);
  for (int trial = 0; trial < 100; ++trial) {
    const ProfileGraph graph = RandomGraph(random, 1 + trial % 9, /*chain=*/false);
    const auto blocks = RandomRuns(random, static_cast<int>(graph.nodes.size()));
    const auto sets = Downsets::OfBlocks(graph, blocks, 1 << 12);
    ASSERT_TRUE(sets.ok());
    for (int set = 0; set < sets->size(); ++set) {
      std::set<int> reached = {set};
      for (int at = set; at >= 0; --at) {
        if (reached.count(at) == 0) continue;
        for (const int smaller : sets->Smaller(at)) {
          EXPECT_LT(smaller, at);
          reached.insert(smaller);
        }
      }
      for (int part = 0; part < sets->size(); ++part) {
        EXPECT_EQ(reached.count(part) != 0, sets->Inside(part, set));
      }
    }
  }
}

TEST(Downsets, AlongAnOrderNamesThoseThatAreListed) {
  Random random(7);
  for (int trial = 0; trial < 100; ++trial) {
    const int nodes = 1 + trial % 9;
    const ProfileGraph graph = RandomGraph(random, nodes, /*chain=*/false);
    const auto blocks = RandomRuns(random, nodes);
    const auto sets = Downsets::OfBlocks(graph, blocks, 1 << 12);
    ASSERT_TRUE(sets.ok());
    std::vector<int> order(static_cast<size_t>(nodes)), prefix;
    for (int node = 0; node < nodes; ++node) order[node] = node;
    const std::vector<int> along = sets->Along(order);
    for (int count = 0; count <= nodes; ++count) {
      if (count > 0) prefix.push_back(count - 1);
      if (HasWholeBlocks(prefix, blocks)) {
        ASSERT_GE(along[count], 0);
        EXPECT_EQ(Members(*sets, along[count]), prefix);
      } else {
        EXPECT_EQ(along[count], -1);
      }
    }
  }
}

TEST(SomeCuts, AreFewAndHoldThoseOfTheStages) {
  Random random(8);
  int fewer = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int nodes = 4 + trial % 20;
    const ProfileGraph graph = RandomGraph(random, nodes, /*chain=*/false);
    const auto stages = RandomRuns(random, nodes);
    const int most = nodes + 2 + Below(random, 200);
    const Downsets sets = ListSomeCuts(graph, stages, most);
    EXPECT_LE(sets.size(), most);
    std::vector<int> order;
    for (const auto& stage : stages) order.insert(order.end(), stage.begin(), stage.end());
    const std::vector<int> along = sets.Along(order);
    size_t end = 0;
    for (const auto& stage : stages) {
      end += stage.size();
      EXPECT_GE(along[end], 0);
    }
    fewer += sets.all() ? 0 : 1;
    if (sets.all()) {
      EXPECT_EQ(sets.size(), Downsets::Enumerate(graph, most)->size());
    }
  }
  EXPECT_GT(fewer, 50);
}

}  // namespace
}  // namespace sluice
