#ifndef SLUICE_TOOLS_PLAN_PLAN_QUESTION_H_
#define SLUICE_TOOLS_PLAN_PLAN_QUESTION_H_

#include "absl/status/statusor.h"
#include "partitioner/planning/question.h"
#include "tools/plan/plan_flags.h"

namespace sluice {

// What `flags` ask, with the files that they name read. InvalidArgument or Unimplemented names the
// flag, or the line or field of the file; NotFound lists the models and devices that there are.
absl::StatusOr<PlanQuestion> ReadQuestion(const PlanFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_QUESTION_H_
