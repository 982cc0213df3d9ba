#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SHOW_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SHOW_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/schedule/question/schedule_question.h"

namespace sluice {

// What `sluice schedule show` prints. An error carries the exit code.
absl::StatusOr<std::string> FormatSchedule(const ShowQuestion& question);
// `sluice schedule show`: prints one timetable, drawn or exported. An error carries the exit code.
absl::Status ShowSchedule(const ShowQuestion& question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SHOW_H_
