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
    // Latencies belong to layers that have something to sum.
    if (bytes > 0) {
      layer.sync_seconds +=
          sums * seconds(Collective::kReduceScatter, bytes) +
          seconds(Collective::kAllGather, share.zero == 0 ? bytes : bytes - low_halves);
    }
    if (share.zero == 0) continue;
    layer.update_seconds /= static_cast<double>(replicas);
    layer.tied_update_seconds /= static_cast<double>(replicas);
    // Ranks of the same number swap what is theirs.
    layer.tied_sum_seconds /= static_cast<double>(replicas);
    layer.tied_gradient_bytes = (layer.tied_gradient_bytes + replicas - 1) / replicas;
    layer.parameter_bytes -=
        moments * (bytes - bytes / replicas) + low_halves - low_halves / replicas;
    const int64_t tied = layer.tied_state_bytes - layer.tied_state_bytes / replicas;
    layer.parameter_bytes -= tied;
    layer.tied_bytes -= tied;
    layer.tied_state_bytes -= tied;
    // What is summed at a time lies among the step's buffers, which RunMemory knows.
    if (share.zero == 2) layer.parameter_bytes -= bytes - bytes / replicas;
  }
}

}  // namespace sluice
