#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_CHECK_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_CHECK_H_

#include "absl/status/status.h"
#include "tools/schedule/question/schedule_question.h"

namespace sluice {

// `sluice schedule check`: prints that the table in a file is sound, or its defects.
// InvalidArgument with exit code 4 when it is not sound; other errors are those of ReadTable.
absl::Status CheckTimetable(const CheckQuestion& question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_CHECK_H_
