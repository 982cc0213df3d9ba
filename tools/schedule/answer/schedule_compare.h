#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_COMPARE_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_COMPARE_H_

#include "absl/status/status.h"
#include "tools/schedule/question/schedule_question.h"

namespace sluice {

// `sluice schedule compare`: writes a table of several schedules, or the best makespan under each
// memory limit. A schedule that is named must work; of the whole catalogue, those that fit are
// shown, and what keeps the others from it is printed. An error carries the exit code.
absl::Status CompareSchedules(const CompareQuestion& question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_COMPARE_H_
