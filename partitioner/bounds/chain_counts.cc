#include "partitioner/bounds/chain_counts.h"

namespace sluice {

double ChainCounts::Seconds(const StepCosts& costs) const {
  double seconds = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    seconds += stages[s].forward * costs.forward[s] + stages[s].input_grad * costs.input_grad[s] +
               stages[s].weight_grad * costs.weight_grad[s] + stages[s].tail * costs.tail[s];
    if (s + 1 < stages.size()) seconds += stages[s].send * costs.send[s];
  }
  return seconds;
}

}  // namespace sluice
