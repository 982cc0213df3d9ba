#ifndef SLUICE_PARTITIONER_PLANNING_QUESTION_SETTING_H_
#define SLUICE_PARTITIONER_PLANNING_QUESTION_SETTING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/costs/layer_cost.h"
#include "partitioner/machines.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// One way to use a number of devices: data * tensor * pipeline of them, and the samples of a step
// cut into micro-batches.
struct PlanSetting {
  int data = 1;      // replicas of the pipeline
  int tensor = 1;    // devices that share each stage
  int pipeline = 1;  // ranks
  int64_t micro_batch_size = 1;
  int micro_batches = 1;            // per step, of each replica
  std::optional<Recompute> policy;  // of all stages; nullopt: each has the one that suits it
  std::vector<int> rank_devices;    // [rank] which kind of device, where kinds differ; else empty
  std::vector<std::string> kinds;   // [kind] its name, where kinds differ and it is to be said

  bool operator==(const PlanSetting&) const = default;
  // "data 2 x pipeline 4, 16 micro-batches of 1"; where kinds differ, along the pipeline:
  // "pipeline 4 (3 h100, 1 a100), 16 micro-batches of 1".
  std::string Describe() const;
};

// The request of one setting on its own: `common` with its devices, micro-batches and machines.
PlanRequest RequestOf(const PlanRequest& common, const PlanSetting& setting, Machines machines);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_QUESTION_SETTING_H_
