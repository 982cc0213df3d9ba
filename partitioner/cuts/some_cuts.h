#ifndef SLUICE_PARTITIONER_CUTS_SOME_CUTS_H_
#define SLUICE_PARTITIONER_CUTS_SOME_CUTS_H_

#include <cstdint>
#include <vector>

#include "models/spec/profile_graph.h"
#include "partitioner/cuts/downsets.h"

namespace sluice {

// Some of the cuts of a graph that has too many (NASNet), the more of them the nearer to the cuts
// between `stages`, which share out the nodes: those cuts are among them, and so are, node by node,
// the cuts around them. Far from them only cuts between blocks of nodes are listed.
//   The nodes stand in the order of the stages, each stage's ascending. A block is a run of
// neighbours in this order, so blocks never need one another in a circle. Blocks are merged two
// neighbours at a time, those first whose seconds are few for their distance from a cut of
// `stages`, as often as it takes to have at most `most` cuts.
// One stage of all nodes stands for no cuts known.
Downsets ListSomeCuts(const ProfileGraph& graph, const std::vector<std::vector<int>>& stages,
                      int64_t most);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CUTS_SOME_CUTS_H_
