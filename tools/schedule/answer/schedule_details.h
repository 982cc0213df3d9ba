#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DETAILS_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DETAILS_H_

#include <string>

#include "absl/status/status.h"

namespace sluice {

// `sluice schedule list NAME`: prints all about one schedule, or `auto`: its entry in the list, the
// flags that it takes, who runs it, and a drawing of 4 ranks with 8 micro-batches; as JSON without
// the drawing. An error carries the exit code; NotFound lists the names there are.
absl::Status DescribeSchedule(const std::string& name, bool json);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DETAILS_H_
