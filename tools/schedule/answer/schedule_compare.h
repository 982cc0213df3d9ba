#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_COMPARE_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_COMPARE_H_

#include "absl/status/status.h"
#include "tools/schedule/question/schedule_question.h"

namespace sluice {

// `sluice schedule compare`: prints a table of several schedules, or the best makespan under each
// memory limit. A schedule that does not fit into the limit has a line that says so; where none
// fits, the status carries exit code 3. Another error of a schedule that was named ends the
// command; of the whole catalogue, the schedules that can be had are shown, and the reasons of the
// others are printed. An error carries the exit code.
absl::Status CompareSchedules(const CompareQuestion& question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_COMPARE_H_
