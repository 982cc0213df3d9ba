#ifndef SLUICE_PARTITIONER_PLANNING_QUESTION_MEGATRON_SCHEDULES_H_
#define SLUICE_PARTITIONER_PLANNING_QUESTION_MEGATRON_SCHEDULES_H_

#include <string>

#include "absl/status/status.h"

namespace sluice {

// OK where Megatron-LM runs `schedule` on so many ranks: 1f1b; and interleaved, on 2 ranks at least
// and with micro-batches in whole groups of the ranks. InvalidArgument says what it has instead.
absl::Status CheckForMegatron(const std::string& schedule, int ranks, int micro_batches);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_QUESTION_MEGATRON_SCHEDULES_H_
