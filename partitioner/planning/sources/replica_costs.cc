#include "partitioner/planning/sources/replica_costs.h"

#include "partitioner/costs/collectives.h"

namespace sluice {

void ShareOverReplicas(const ReplicaShare& share, std::vector<LayerCost>* layers) {
  if (share.replicas == 1) return;
  const int64_t replicas = share.replicas;
  const int64_t moments = share.optimizer == OptimizerKind::kAdamW ? 2 : 1;
  const int sums = share.zero == 2 ? share.micro_batches : 1;
  for (LayerCost& layer : *layers) {
    const int64_t bytes = layer.parameters * SizeOf(DType::kFloat32);
    const int64_t low_halves = layer.split_parameters * SizeOf(DType::kBFloat16);
    const auto seconds = [&](Collective collective, int64_t of) {
      return CollectiveSeconds(collective, static_cast<double>(of), share.replicas, share.link);
    };
    // A rank that has both of two tied layers has both gradients, and sums both.
    const int64_t gradients = bytes + layer.tied_gradient_bytes;
    // Latencies belong to layers that have something to sum.
    if (gradients > 0) {
      layer.sync_seconds +=
          sums * seconds(Collective::kReduceScatter, gradients) +
          seconds(Collective::kAllGather, share.zero == 0 ? gradients : bytes - low_halves);
    }
    if (share.zero == 0) continue;
    layer.update_seconds /= static_cast<double>(replicas);
    layer.tied_update_seconds /= static_cast<double>(replicas);
    if (layer.tied_gradient_bytes > 0) {
      // Tied weights are gathered once, too, by a rank that has both; in the pass of the others.
      const double gather = CollectiveSeconds(
          Collective::kAllGather, static_cast<double>(layer.tied_bytes - layer.tied_state_bytes),
          share.replicas, {.bandwidth = share.link.bandwidth});
      layer.update_seconds += gather;
      layer.tied_update_seconds += gather;
    }
    // Ranks of the same number swap what is theirs.
    layer.tied_sum_seconds /= static_cast<double>(replicas);
    layer.tied_gradient_bytes = (layer.tied_gradient_bytes + replicas - 1) / replicas;
    layer.parameter_bytes -=
        moments * (bytes - bytes / replicas) + low_halves - low_halves / replicas;
    const int64_t tied = layer.tied_state_bytes - layer.tied_state_bytes / replicas;
    layer.parameter_bytes -= tied;
    layer.tied_bytes -= tied;
    layer.tied_state_bytes -= tied;
    // Of tied weights' gradients a rank keeps its slice, too. What is summed at a time lies among
    // the step's buffers, which RunMemory knows.
    if (share.zero == 2) layer.parameter_bytes -= gradients - gradients / replicas;
  }
}

}  // namespace sluice
