#ifndef SLUICE_TOOLS_PLAN_FLAGS_H_
#define SLUICE_TOOLS_PLAN_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "partitioner/planner.h"
#include "pipeline/predict_memory.h"
#include "tools/model_flags.h"

namespace sluice {

// `sluice plan` as it was typed; empty or nullopt where a flag was not.
struct PlanFlags {
  ModelFlags model;
  int devices = 1;
  std::string assume, device, memory, bandwidth, latency, cluster;
  std::optional<int> micro_batch_size, micro_batches, global_batch, seq;
  std::string dtype, schedule = "auto", recompute = "auto", objective = "step", partition;
  std::optional<int> chunks;
  std::string data_parallel = "1", tensor_parallel = "1", optimizer = "adamw";
  std::string format = "text", output;
  bool json = false;
};

void AddPlanFlags(CLI::App& command, PlanFlags* flags);

// The flags that need no model, read. InvalidArgument names the flag; Unimplemented those that are
// promised for later.
struct PlanChoices {
  std::vector<Recompute> policies;
  Objective objective = Objective::kStep;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  std::optional<int64_t> memory;
  std::optional<double> bandwidth, latency;
  std::optional<DType> dtype;
};
absl::StatusOr<PlanChoices> ReadChoices(const PlanFlags& flags);

// Micro-batches of a step, from --micro-batches or --global-batch.
absl::StatusOr<int> MicroBatches(const PlanFlags& flags, int64_t micro_batch_size);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_FLAGS_H_
