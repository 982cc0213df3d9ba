#ifndef SLUICE_PARTITIONER_PLANNING_FILE_MEGATRON_LAYOUT_H_
#define SLUICE_PARTITIONER_PLANNING_FILE_MEGATRON_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/partition.h"
#include "schedules/timetable.h"

namespace sluice {

// Megatron-LM's --pipeline-model-parallel-layout: the layers of a stage as letters (E embedding, t
// transformer block, L final norm and loss), with | between stages: "Ett|ttt|ttt|ttL".
// `layer_names` is [layer]. InvalidArgument for anything but a GPT's layers, and for a placement
// that is not round robin, as Megatron-LM's is: its stages would stand on other ranks than the
// plan's.
absl::StatusOr<std::string> FormatMegatronLayout(const Placement& placement,
                                                 const Partition& partition,
                                                 const std::vector<std::string>& layer_names);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_FILE_MEGATRON_LAYOUT_H_
