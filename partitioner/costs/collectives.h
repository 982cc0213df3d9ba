#ifndef SLUICE_PARTITIONER_COSTS_COLLECTIVES_H_
#define SLUICE_PARTITIONER_COSTS_COLLECTIVES_H_

#include <cstdint>

#include "partitioner/costs/link.h"

namespace sluice {

enum class Collective : uint8_t { kAllReduce, kAllGather, kReduceScatter };

// Seconds that `ranks` ranks take for a collective over `bytes` (of the whole tensor) by a ring
// (Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms, 2009): an all-gather or a
// reduce-scatter passes
//   latency + (ranks - 1) / ranks * bytes / bandwidth
// and an all-reduce is one of each. `link` is what one rank gets. The latency counts once a pass,
// not once a hop: on GPUs it is the ranks' meeting, not the wire. Nothing for one rank.
double CollectiveSeconds(Collective collective, double bytes, int ranks, const Link& link);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_COLLECTIVES_H_
