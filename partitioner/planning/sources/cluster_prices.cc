#include "partitioner/planning/sources/cluster_prices.h"

#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/layers/adapted_layers.h"
#include "partitioner/costs/decoder_cost.h"

namespace sluice {

void ApplyQuestion(const PlanQuestion& question, Machines* machines) {
  if (question.memory) machines->SetMemory(question.memory);
  for (Link& link : machines->rank_links) {
    link.bandwidth = question.bandwidth.value_or(link.bandwidth);
    link.latency = question.latency.value_or(link.latency);
  }
  machines->link.bandwidth = question.bandwidth.value_or(machines->link.bandwidth);
  machines->link.latency = question.latency.value_or(machines->link.latency);
}

std::vector<int> GroupsOf(const ClusterSpec& cluster, const PlanSetting& setting) {
  if (!setting.rank_devices.empty()) {
    return GroupsOfRanks(cluster, setting.rank_devices, setting.data * setting.tensor);
  }
  std::vector<int> groups(static_cast<size_t>(setting.pipeline));
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

ClusterPrices::ClusterPrices(DecoderConfig config, const PlanQuestion& question, DType dtype,
                             int64_t seq, ClusterSpec cluster)
    : config_(std::move(config)),
      question_(&question),
      dtype_(dtype),
      seq_(seq),
      cluster_(std::move(cluster)) {}

absl::StatusOr<Machines> ClusterPrices::operator()(const PlanSetting& setting) const {
  Parallel parallel;
  parallel.data = setting.data;
  parallel.tensor = setting.tensor;
  parallel.sequence = question_->sequence_parallel && setting.tensor > 1;
  parallel.zero = question_->zero;
  if (absl::Status status = ValidateParallel(parallel); !status.ok()) return status;
  if (absl::Status status = CheckShares(parallel); !status.ok()) return status;
  DecoderTraining training;
  training.batch = {setting.micro_batch_size, seq_};
  training.dtype = dtype_;
  training.state_copies = question_->optimizer == OptimizerKind::kAdamW ? 2 : 1;
  // Not sluice but Megatron-LM and the like run what is priced here; they keep whole ones.
  training.master_weights = question_->master_weights.value_or(MasterWeights::kWhole);
  training.trained = TrainedPartsOf(config_, question_->adaptation);
  training.base_dtype = question_->adaptation.base_dtype;
  training.overlap_sync = question_->overlap_sync;
  std::vector<std::shared_ptr<const CostTable>> kinds;
  for (size_t kind = 0; kind < cluster_.devices.size(); ++kind) {
    absl::StatusOr<std::shared_ptr<const CostTable>> table = CostTable::CreateShared(
        DecoderCosts(config_, training, parallel, cluster_, static_cast<int>(kind)));
    if (!table.ok()) return table.status();
    kinds.push_back(*std::move(table));
  }
  Machines machines;
  machines.costs = kinds.front();
  TakeRanks(setting, parallel, kinds, &machines);
  ApplyQuestion(*question_, &machines);
  return machines;
}

absl::Status ClusterPrices::CheckShares(const Parallel& parallel) const {
  if (config_.heads % parallel.tensor != 0) {
    return absl::InvalidArgumentError(absl::StrCat(config_.heads,
                                                   " heads cannot be divided evenly among ",
                                                   parallel.tensor, " tensor-parallel devices"));
  }
  if (parallel.sequence && seq_ % parallel.tensor != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sequence-parallel: ", seq_, " tokens cannot be divided evenly among ", parallel.tensor,
        " tensor-parallel devices; give a --seq that is a multiple, or leave the flag out"));
  }
  // MoELayer.forward (megatron/core/transformer/moe/moe_layer.py) raises a ValueError.
  if (question_->trainer == Trainer::kMegatron && config_.experts.has_value() &&
      parallel.tensor > 1 && !parallel.sequence) {
    return absl::InvalidArgumentError(
        "Megatron-LM trains experts on tensor-parallel devices with sequence parallelism only; "
        "give --sequence-parallel, or --tensor-parallel 1");
  }
  return absl::OkStatus();
}

void ClusterPrices::TakeRanks(const PlanSetting& setting, const Parallel& parallel,
                              const std::vector<std::shared_ptr<const CostTable>>& kinds,
                              Machines* machines) const {
  machines->link = cluster_.inside;
  const std::vector<int> groups = GroupsOf(cluster_, setting);
  for (int rank = 0; rank < setting.pipeline; ++rank) {
    const int next = (rank + 1) % setting.pipeline;
    machines->rank_links.push_back(RankLink(cluster_, parallel, groups[rank], groups[next]));
  }
  if (kinds.size() == 1) {
    if (cluster_.devices[0].memory_bytes > 0) {
      machines->memory_limit = cluster_.devices[0].memory_bytes;
    }
    return;
  }
  for (int kind : setting.rank_devices) {
    machines->rank_costs.push_back(kinds[kind]);
    const int64_t bytes = cluster_.devices[kind].memory_bytes;
    machines->rank_memory.push_back(bytes > 0 ? bytes : std::numeric_limits<int64_t>::max());
  }
}

}  // namespace sluice
