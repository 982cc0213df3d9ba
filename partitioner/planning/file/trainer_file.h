#ifndef SLUICE_PARTITIONER_PLANNING_FILE_TRAINER_FILE_H_
#define SLUICE_PARTITIONER_PLANNING_FILE_TRAINER_FILE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"
#include "partitioner/planning/question/other_trainers.h"

// What the files of all trainers other than sluice need to know of a plan.
namespace sluice {

// What runs of the plan are to do.
AskedOfTrainer AskedIn(const PlanContext& context);

// The recompute policy of all stages. InvalidArgument where they have several, which `trainer`
// ("Megatron-LM") does not.
absl::StatusOr<Recompute> OnePolicy(const Plan& plan, absl::string_view trainer);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_FILE_TRAINER_FILE_H_
