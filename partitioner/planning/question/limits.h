#ifndef SLUICE_PARTITIONER_PLANNING_QUESTION_LIMITS_H_
#define SLUICE_PARTITIONER_PLANNING_QUESTION_LIMITS_H_

#include "absl/status/status.h"
#include "partitioner/planning/question/question.h"
#include "partitioner/planning/question/setting.h"

// Numbers beyond what anybody trains with, whose products would overflow 64 bits, or whose
// timetables would take all memory.
namespace sluice {

// Each number of the question alone: InvalidArgument names its flag and the most that it takes.
absl::Status CheckLimits(const PlanQuestion& question);

// What the numbers make together, for sequences of `seq` tokens: InvalidArgument names their flags.
absl::Status CheckSettingLimits(const PlanSetting& setting, int64_t seq);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_QUESTION_LIMITS_H_
