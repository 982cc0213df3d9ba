#include "models/spec/profile_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Node(const std::string& id, const std::string& what, const std::string& size = "8.0") {
  return id + " -- " + what +
         " -- forward_compute_time=1.500, backward_compute_time=2.000, activation_size=" + size +
         ", parameter_size=4.0\n";
}

TEST(ProfileGraph, KeepsWhatWorksWithSourcesFirst) {
  const std::string text = Node("node4", "Add(inplace)", "[8.0; 16.0]") + "\tnode2 -- node4\n" +
                           Node("node1", "Input0") + Node("node2", "Conv2d(3, 8, bias=False)") +
                           "\tnode1 -- node2\n\tnode2 -- node3\n" +
                           Node("node3", "__getitem__(1)") + "\tnode3 -- node5\n" +
                           Node("node5", "__getitem__(0)") + "\tnode1 -- node4";
  const auto graph = ParseProfileGraph(text, "graph.txt");
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->nodes.size(), 3u);  // without the input and the unused __getitem__
  EXPECT_EQ(graph->nodes[0].id, "node2");
  EXPECT_EQ(graph->nodes[0].description, "Conv2d(3, 8, bias=False)");
  EXPECT_THAT(graph->nodes[0].sources, ElementsAre());
  EXPECT_EQ(graph->nodes[0].users.size(), 2u);
  EXPECT_DOUBLE_EQ(graph->nodes[0].forward_seconds, 1.5e-3);
  EXPECT_DOUBLE_EQ(graph->nodes[0].backward_seconds, 2e-3);
  const ProfileNode& add = graph->nodes[1].id == "node4" ? graph->nodes[1] : graph->nodes[2];
  EXPECT_DOUBLE_EQ(add.activation_bytes, 24);
  EXPECT_FALSE(graph->IsChain());
}

struct Bad {
  const char* what;
  std::string text;
  const char* message;
};

TEST(ProfileGraph, NamesTheLineThatIsWrong) {
  const std::string a = Node("node1", "a"), b = Node("node2", "b");
  const Bad inputs[] = {
      {"an edge to nowhere", a + "\tnode1 -- node9\n", "graph.txt:2: there is no node 'node9'"},
      {"a node twice", a + b + a, "graph.txt:3: node 'node1' is given twice"},
      {"an edge twice", a + b + "\tnode1 -- node2\n\tnode1 -- node2\n", "graph.txt:4"},
      {"a cycle", a + b + "\tnode1 -- node2\n\tnode2 -- node1\n", "cycle"},
      {"a loop", a + "\tnode1 -- node1\n", "cycle"},
      {"another shape", a + "hello\n", "graph.txt:2: a node is written"},
      {"half an edge", a + "\tnode1\n", "graph.txt:2: an edge is written"},
      {"a negative size", Node("node1", "a", "-1.0"), "graph.txt:1: activation_size is '-1.0'"},
      {"not a number", Node("node1", "a", "nan"), "activation_size is 'nan'"},
      {"huge", Node("node1", "a", "1e300"), "activation_size is '1e300'"},
      {"an open list", Node("node1", "a", "[1.0; 2.0"), "not closed"},
      {"no costs", "node1 -- a -- forward_compute_time=1.0\n", "has no backward_compute_time"},
      {"a cost twice", "node1 -- a -- forward_compute_time=1.0, forward_compute_time=1.0\n",
       "a second time"},
      {"nothing", "", "no nodes"},
      {"inputs only", Node("node1", "Input0"), "no nodes"},
  };
  for (const Bad& bad : inputs) {
    const auto graph = ParseProfileGraph(bad.text, "graph.txt");
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << bad.what;
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr(bad.message)) << bad.what;
  }
}

}  // namespace
}  // namespace sluice
