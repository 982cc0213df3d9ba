#ifndef SLUICE_PARTITIONER_PLANNING_RACE_JOINT_PLAN_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_JOINT_PLAN_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/machines.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/question/progress.h"
#include "partitioner/planning/question/setting.h"

namespace sluice {

struct JointRequest {
  // What holds for all settings: schedule, chunks, policies, objective, partition, gap, stop.
  PlanRequest common;
  std::vector<PlanSetting> settings;
  // The machines of a setting, with the costs of one replica and of one of the devices that share a
  // stage. Called from several threads.
  std::function<absl::StatusOr<Machines>(const PlanSetting&)> price;
  // Ends the search once it has found something that fits: for a usual time that nobody asked for,
  // which is no reason to say that there is no plan. Called from several threads; may be empty.
  std::function<bool()> stop_when_found;
  // Ends what follows the search, where there is a limit of time: somewhat later than common.stop,
  // so that a plan found at the last moment is still completed. Called from several threads.
  std::function<bool()> stop_completing;
  // Called now and then from the thread that asked for the plan; may be empty.
  ProgressCallback progress;
};

struct JointPlan {
  Plan plan;
  PlanSetting setting;
  Machines machines;       // of that setting
  int settings_tried = 0;  // the others were proved slower by ObjectiveFloor alone
  int settings_in_all = 0;
  bool completed = true;  // false: stop_completing came before FitRun had counted the plan's bytes
};

// The best plan over all settings. Its lower bound holds over all of them, and its `rejected` tells
// of the other settings first. They are compared by the objective: the bottleneck is that of one
// micro-batch, whatever its size. Settings are taken by QuickSeconds, least first, and those whose
// ObjectiveFloor the best plan found already meets are not searched. Errors as MakePlan.
absl::StatusOr<JointPlan> MakeJointPlan(const JointRequest& request);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_JOINT_PLAN_H_
