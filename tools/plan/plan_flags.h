#ifndef SLUICE_TOOLS_PLAN_PLAN_FLAGS_H_
#define SLUICE_TOOLS_PLAN_PLAN_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "partitioner/plan_request.h"
#include "pipeline/compile/predict_memory.h"
#include "tools/train/model_flags.h"

namespace sluice {

// Micro-batches of a step where no flag says.
inline constexpr int kDefaultMicroBatches = 16;

// `sluice plan` as it was typed; empty or nullopt where a flag was not.
struct PlanFlags {
  ModelFlags model;
  int devices = 1;
  std::string assume, device, memory, bandwidth, latency, cluster;
  std::string micro_batch_size;
  std::optional<int> micro_batches, global_batch, seq;
  std::string dtype, schedule = "auto", recompute = "auto", objective = "step", partition;
  std::optional<int> chunks;
  std::string data_parallel = "1", tensor_parallel = "1", optimizer = "adamw";
  int zero = 0;
  bool sequence_parallel = false, overlap_sync = false;
  std::string time_limit, gap;
  bool pareto = false, what_if = false;
  std::string format = "text", output;
  bool json = false;
};

void AddPlanFlags(CLI::App& command, PlanFlags* flags);

// The flags that need no model, read. InvalidArgument names the flag.
struct PlanChoices {
  std::vector<Recompute> policies;
  PlanObjective objective = PlanObjective::kStep;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  std::optional<int64_t> memory;
  std::optional<double> bandwidth, latency;
  std::optional<DType> dtype;
  // Empty: any ("auto").
  std::optional<int> data_parallel = 1, tensor_parallel = 1;
  std::optional<int64_t> micro_batch_size;  // empty as well where it was not given
  bool any_micro_batch_size = false;
  std::optional<double> time_limit;  // seconds
  double gap = 0;

  // Whether there is but one way to use the devices.
  bool one_setting() const { return data_parallel && tensor_parallel && !any_micro_batch_size; }
  bool plain() const { return data_parallel == 1 && tensor_parallel == 1; }
};
absl::StatusOr<PlanChoices> ReadChoices(const PlanFlags& flags);

// Samples of a step, of all replicas, from --global-batch or --micro-batches. InvalidArgument when
// the two disagree or what is given does not divide.
absl::StatusOr<int64_t> GlobalBatch(const PlanFlags& flags, const PlanChoices& choices,
                                    int64_t micro_batch_size);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_FLAGS_H_
