#ifndef SLUICE_TOOLS_PLAN_PLAN_QUESTION_H_
#define SLUICE_TOOLS_PLAN_PLAN_QUESTION_H_

#include "absl/status/statusor.h"
#include "partitioner/planning/question/question.h"
#include "tools/plan/plan_flags.h"

namespace sluice {

// The question that `flags` ask; reads the files that they name. InvalidArgument or Unimplemented
// names the flag, or the line or field of the file; NotFound lists the known models and devices.
absl::StatusOr<PlanQuestion> ReadQuestion(const PlanFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_QUESTION_H_
