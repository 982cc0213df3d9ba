#ifndef SLUICE_PARTITIONER_PLANNING_FILE_TORCHTITAN_CONFIG_H_
#define SLUICE_PARTITIONER_PLANNING_FILE_TORCHTITAN_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"

namespace sluice {

// How torchtitan reads its configuration.
enum class TorchTitanFile {
  kToml,    // up to 0.2: tables in TOML; the head of a model is `output`
  kPython,  // from 0.3 on: a module of functions that return one; the head is `lm_head`
};

// The plan as torchtitan's configuration: degrees of parallelism, the modules of each stage
// (module_fqns_per_model_part), batch sizes, activation checkpointing, and `csv`, the file with the
// timetable, as FormatTimetableCsv writes it. Modules have the names of torchtitan's Llama, Qwen3
// and DeepSeek-V3: tok_embeddings, layers.0, norm. A Python module changes any of torchtitan's
// configurations so, and expects the timetable in its own folder. Where not all of the model is
// trained, comments say what: torchtitan has that in a configuration's converters, or in code.
// InvalidArgument says what torchtitan does not have: stages that are neither dealt round robin nor
// placed in a V with two per rank, several recompute policies, optimizer state shared out without
// the weights (ZeRO 1 and 2), blocks that predict ahead, a graph of operations.
absl::StatusOr<std::string> FormatTorchTitanConfig(const Plan& plan, const PlanContext& context,
                                                   TorchTitanFile file, const std::string& csv);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_FILE_TORCHTITAN_CONFIG_H_
