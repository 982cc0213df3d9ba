#ifndef SLUICE_BENCH_PARTITIONER_RULES_H_
#define SLUICE_BENCH_PARTITIONER_RULES_H_

#include <vector>

#include "partitioner/cuts/graph_stage.h"
#include "partitioner/graph_plan.h"

// How other systems cut a model into stages, implemented from what they publish, for comparison
// with FindGraphPartition. All are for stages on one device each (`replicate` false). The result is
// empty if a rule does not make `devices` stages that all have a node.
namespace sluice {

// torchgpipe.balance: Barany and Grolmusz, Block Partitions of Sequences, 2013 (arXiv:1308.2452),
// over the nodes' seconds in the order of the graph. It balances the blocks' sums to within the
// largest node, and ignores what crosses a cut.
std::vector<GraphStage> TorchgpipeBlocks(const GraphRequest& request);

// DeepSpeed's PipelineModule(partition_method="parameters"): the least largest sum of parameters of
// a stage, by binary search over prefix sums, in the order of the graph.
std::vector<GraphStage> DeepSpeedParameters(const GraphRequest& request);

// PipeDream's optimizer_graph_hierarchical.py --straight_pipeline --activation_compression_ratio 1:
// dynamic programming over the sets of nodes that it can grow from the first source. It adds a user
// of the set together with all nodes that this one needs, and counts what crosses a cut in its own
// way, which is never too low. The result is empty if there are more than `most_states` sets.
std::vector<GraphStage> PipeDreamStages(const GraphRequest& request, size_t most_states = 4000,
                                        size_t* states = nullptr);

}  // namespace sluice

#endif  // SLUICE_BENCH_PARTITIONER_RULES_H_
