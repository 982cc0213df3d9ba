#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_DEFAULT_PARTITION_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_DEFAULT_PARTITION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/adaptation.h"
#include "models/spec/head_blocks.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "schedules/partition.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// The layers of a training, and what is known of them and of the ranks beside their FLOPs.
struct TrainedLayers {
  const ModelSpec* spec = nullptr;  // the caller's
  BatchShape batch = {};
  Adaptation adaptation = {};
  HeadLimits head = {};  // of the kind of device that they run on
  // [rank of the timetable] 2: twice as fast as one of 1; empty: all are alike.
  std::vector<double> rank_speeds = {};
  // [layer] multiples of the seconds that its FLOPs say; empty: 1 each.
  std::vector<double> layer_factors = {};
  // [rank of the timetable] seconds, by the same measure, of a message to the next rank and back, from
  // the last rank to the first; empty: messages take no time.
  std::vector<double> link_seconds = {};
};

// The partition that trains fastest by that alone: what `sluice train` takes when it is told neither a
// partition nor a plan. Depends on nothing but its arguments. InvalidArgument when there are more
// stages than layers, or where a vector has the wrong length.
struct DefaultStages {
  Partition partition;
  // Of a step, of one replica; only their ratios to those of others mean something.
  double seconds = 0;
  double lower_bound = 0;  // proved: no partition takes less; 0: nothing is proved
};
absl::StatusOr<DefaultStages> DefaultPartition(const TrainedLayers& layers,
                                               const Timetable& timetable);

// What the stages of `partition` cost on the timetable's ranks, by the same prices; those of every
// copy of the model cost what those of the first do. `recompute`: [stage of a copy] what its backward
// computes again; nothing where it ends early. Errors as above, and where the partition has not as many
// stages as a copy.
absl::StatusOr<StageCosts> PriceDefaultStages(const TrainedLayers& layers,
                                              const Timetable& timetable,
                                              const Partition& partition,
                                              const std::vector<Recompute>& recompute = {});

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_DEFAULT_PARTITION_H_
