#ifndef SLUICE_TOOLS_PLAN_PLAN_CHOICES_H_
#define SLUICE_TOOLS_PLAN_PLAN_CHOICES_H_

#include "absl/status/status.h"
#include "partitioner/planning/question/question.h"
#include "tools/plan/plan_flags.h"

namespace sluice {

// Reads the flags that need no model and no file. InvalidArgument names the flag.
absl::Status ReadChoices(const PlanFlags& flags, PlanQuestion* question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_CHOICES_H_
