#ifndef SLUICE_TOOLS_TRAIN_TRAIN_PLAN_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_PLAN_H_

#include <string>

#include "absl/status/status.h"
#include "partitioner/planning/file/plan_file.h"
#include "pipeline/compile/plan/run_plan.h"
#include "tools/train/train_question.h"

namespace sluice {

// Puts the answers of a plan into the question. InvalidArgument where a flag that was given for
// this start says something else, or the plan is for what cannot be trained.
absl::Status TakePlan(const PlanFile& plan, TrainQuestion* question);

// `question.settings`, the text of run.toml, and in it what `run` has from the plan of the question
// and a run that goes on without that plan must not change.
std::string SettingsWithPlan(const TrainQuestion& question, const RunPlan& run);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_PLAN_H_
