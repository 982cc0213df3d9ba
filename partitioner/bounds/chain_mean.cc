#include "partitioner/bounds/chain_mean.h"

namespace sluice {

ChainMean::ChainMean(const ChainCounts& chain) {
  for (const ChainCounts::Stage& stage : chain.stages) {
    stages.push_back({static_cast<double>(stage.forward),
                      (stage.input_grad + stage.weight_grad) / 2.0,
                      static_cast<double>(stage.send)});
  }
}

void ChainMean::Add(const ChainMean& chain, double weight) {
  stages.resize(chain.stages.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].forward += weight * chain.stages[s].forward;
    stages[s].backward += weight * chain.stages[s].backward;
    stages[s].send += weight * chain.stages[s].send;
  }
}

double ChainMean::Seconds(const StepCosts& costs) const {
  double seconds = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    seconds += stages[s].forward * costs.forward[s] + stages[s].backward * costs.backward[s];
    if (s + 1 < stages.size()) seconds += stages[s].send * costs.send[s];
  }
  return seconds;
}

}  // namespace sluice
