#include "partitioner/costs/collectives.h"

namespace sluice {

double CollectiveSeconds(Collective collective, double bytes, int ranks, const Link& link) {
  if (ranks <= 1) return 0;
  const int passes = collective == Collective::kAllReduce ? 2 : 1;
  const double moved = bytes * (ranks - 1) / ranks;
  return passes * (link.latency + moved / link.bandwidth);
}

}  // namespace sluice
