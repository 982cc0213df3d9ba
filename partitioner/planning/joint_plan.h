#ifndef SLUICE_PARTITIONER_PLANNING_JOINT_PLAN_H_
#define SLUICE_PARTITIONER_PLANNING_JOINT_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/machines.h"
#include "partitioner/plan_request.h"
#include "partitioner/planning/plan.h"
#include "partitioner/planning/planner.h"

namespace sluice {

// How a number of devices could be used: data * tensor * pipeline of them, and a step's samples cut
// into micro-batches.
struct PlanSetting {
  int data = 1;      // replicas of the pipeline
  int tensor = 1;    // devices that share each stage
  int pipeline = 1;  // ranks
  int64_t micro_batch_size = 1;
  int micro_batches = 1;          // of each replica, a step
  std::vector<int> rank_devices;  // [rank] which kind of device, where kinds differ; else empty

  std::string Describe() const;  // "data 2 x pipeline 4, 16 micro-batches of 1"
};

// How far the search is.
struct PlanProgress {
  int settings = 0, settings_done = 0;
  double best_seconds = 0;  // infinite before anything was found
  double lower_bound = 0;   // of all settings
};

struct JointRequest {
  // What holds for all settings: schedule, chunks, policies, objective, partition, gap, stop.
  PlanRequest common;
  std::vector<PlanSetting> settings;
  // The machines of a setting, with the costs of one replica and of one of the devices that share a
  // stage. Called from several threads.
  std::function<absl::StatusOr<Machines>(const PlanSetting&)> price;
  // Called now and then from the thread that asked for the plan; may be empty.
  std::function<void(const PlanProgress&)> progress;
};

// The request of one setting on its own.
PlanRequest RequestOf(const JointRequest& joint, const PlanSetting& setting, Machines machines);

struct JointPlan {
  Plan plan;
  PlanSetting setting;
  Machines machines;       // what they are in that setting
  int settings_tried = 0;  // the others were proved slower by StepFloor alone
  int settings_in_all = 0;
};

// The best plan over all settings. Its lower bound holds over all of them, and its `rejected` tells
// of the other settings first. Settings are taken by QuickSeconds, least first, and those whose
// StepFloor the best plan found already meets are not searched. Errors as MakePlan.
absl::StatusOr<JointPlan> MakeJointPlan(const JointRequest& request);

// Every way to use exactly `devices` devices: `data` and `tensor` each one degree or, where empty,
// any; a pipeline of at most `layers` ranks; `global_batch` samples a step in micro-batches of
// `micro_batch_size` or, where that is empty, of any power of two. InvalidArgument when there is
// none: says which number does not divide which.
struct SettingChoices {
  int devices = 1;
  std::optional<int> data, tensor;
  int most_tensor = 1;  // where tensor is open
  int layers = 1;
  int64_t global_batch = 1;
  std::optional<int64_t> micro_batch_size;
};
absl::StatusOr<std::vector<PlanSetting>> ListSettings(const SettingChoices& choices);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_JOINT_PLAN_H_
