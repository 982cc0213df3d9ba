#ifndef SLUICE_PARTITIONER_PLANNING_FILE_TORCHTITAN_CONFIG_H_
#define SLUICE_PARTITIONER_PLANNING_FILE_TORCHTITAN_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"

namespace sluice {

// The plan as tables of torchtitan's configuration, in TOML: degrees of parallelism, the modules of
// each stage (module_fqns_per_model_part), batch sizes, activation checkpointing, and `csv`, the
// file with the timetable, as FormatTimetableCsv writes it. Modules have the names of torchtitan's
// Llama, Qwen3 and DeepSeek-V3: tok_embeddings, layers.0, norm, output. InvalidArgument says what
// torchtitan does not have: stages that are neither dealt round robin nor placed in a V with two
// per rank, several recompute policies, optimizer state shared out without the weights (ZeRO 1 and
// 2), blocks that predict ahead, a graph of operations.
absl::StatusOr<std::string> FormatTorchTitanConfig(const Plan& plan, const PlanContext& context,
                                                   const std::string& csv);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_FILE_TORCHTITAN_CONFIG_H_
