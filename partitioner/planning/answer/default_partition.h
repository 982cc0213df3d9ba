#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_DEFAULT_PARTITION_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_DEFAULT_PARTITION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/adaptation.h"
#include "models/spec/head_blocks.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "schedules/partition.h"
#include "schedules/timetable.h"

namespace sluice {

// The partition that trains fastest by the layers' FLOPs alone: what `sluice train` takes when it
// is told neither a partition nor a plan. A stage with r replicas (`replicas`: [stage]; empty: one
// each) counts as r times as fast. `head`: of the kind of device that they run on. Depends on nothing but its arguments. InvalidArgument when there
// are more stages than layers.
struct DefaultStages {
  Partition partition;
  double seconds =
      0;  // of a step, of one replica; only their ratios to those of others mean something
};
absl::StatusOr<DefaultStages> DefaultPartition(const ModelSpec& spec, const BatchShape& batch,
                                               const Adaptation& adaptation, const HeadLimits& head,
                                               const Timetable& timetable,
                                               const std::vector<int>& replicas = {});

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_DEFAULT_PARTITION_H_
