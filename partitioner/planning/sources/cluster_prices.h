#ifndef SLUICE_PARTITIONER_PLANNING_SOURCES_CLUSTER_PRICES_H_
#define SLUICE_PARTITIONER_PLANNING_SOURCES_CLUSTER_PRICES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/decoder.h"
#include "models/spec/dtype.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/parallel.h"
#include "partitioner/machines.h"
#include "partitioner/planning/question/question.h"
#include "partitioner/planning/question/setting.h"

namespace sluice {

// Takes what `question` says instead of the devices' own memory and links.
void ApplyQuestion(const PlanQuestion& question, Machines* machines);

// [rank] which group of data * tensor devices of `cluster` it holds, as GroupsOfRanks counts them.
std::vector<int> GroupsOf(const ClusterSpec& cluster, const PlanSetting& setting);

// Costs on devices whose rates are known, of models that are described by their widths.
class ClusterPrices {
 public:
  // For sequences of `seq` tokens. The question must outlive the prices.
  ClusterPrices(DecoderConfig config, const PlanQuestion& question, DType dtype, int64_t seq,
                ClusterSpec cluster);

  // InvalidArgument where the model cannot be shared out as `setting` says.
  absl::StatusOr<Machines> operator()(const PlanSetting& setting) const;

 private:
  // Whether tensor-parallel devices can share the model's layers, and the trainer lets them.
  absl::Status CheckShares(const Parallel& parallel) const;
  // Links and, where devices differ, costs and memory by rank.
  void TakeRanks(const PlanSetting& setting, const Parallel& parallel,
                 const std::vector<std::shared_ptr<const CostTable>>& kinds,
                 Machines* machines) const;

  DecoderConfig config_;
  const PlanQuestion* question_;
  DType dtype_;
  int64_t seq_;
  ClusterSpec cluster_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_SOURCES_CLUSTER_PRICES_H_
