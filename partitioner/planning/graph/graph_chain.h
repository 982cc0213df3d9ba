#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_CHAIN_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_CHAIN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/profile_graph.h"
#include "partitioner/cuts/cost_table.h"
#include "partitioner/cuts/graph_work.h"

namespace sluice {

// A graph seen as a chain, along one order of its nodes with sources first: a plan of that chain is
// quickly found, and is something for the search over all cuts to beat.

// The nodes of `graph`, in the order in which they stand there, as layers: of all cuts of the graph
// those before the k-th node, k = 1, 2, ... InvalidArgument as CostTable::Create.
absl::StatusOr<std::shared_ptr<const CostTable>> ChainOf(const ProfileGraph& graph);
// The same graph with its nodes in `order`.
ProfileGraph InOrder(const ProfileGraph& graph, const std::vector<int>& order);
// The cuts between `stages`, which share out the nodes in an order with sources first; empty where
// one of them is not listed in `work`.
GraphCuts CutsBetween(const GraphWork& work, const std::vector<std::vector<int>>& stages);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_CHAIN_H_
