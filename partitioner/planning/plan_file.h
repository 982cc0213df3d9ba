#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_FILE_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_FILE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/model_spec.h"
#include "partitioner/partition_problem.h"
#include "partitioner/plan.h"

namespace sluice {

// What a plan was made for, beside what the planner knows.
struct PlanContext {
  std::string model;
  std::optional<ModelSpec> spec;  // where the model is one that sluice knows
  int64_t micro_batch_size = 1;
  int64_t seq = 1;  // tokens a sample
  DType dtype = DType::kFloat32;
  int data_parallel = 1;    // replicas of the pipeline
  int tensor_parallel = 1;  // devices that share each stage
  bool sequence_parallel = false;
  int zero = 0;

  // Tokens (samples, of a model without tokens) that one step trains on.
  double TokensPerStep(const Plan& plan) const {
    return static_cast<double>(data_parallel) * static_cast<double>(plan.micro_batches) *
           static_cast<double>(micro_batch_size * seq);
  }
  // Of all replicas.
  int DeviceCount(const Plan& plan) const { return plan.devices * data_parallel * tensor_parallel; }
};

// The plan as JSON: `sluice plan --format json`, read back by ParsePlan. SI base units. Its text.
nlohmann::ordered_json PlanToJson(const Plan& plan, const PlanContext& context,
                                  const std::vector<std::string>& layer_names);
std::string FormatPlan(const Plan& plan, const PlanContext& context,
                       const std::vector<std::string>& layer_names);

// The schedule of a plan whose order is none of the catalogue's.
inline constexpr char kOwnOrder[] = "auto";

// What a run needs of a plan. One of a profiled chain knows what its operations cost, not what they
// are: the model and the shape of a micro-batch are the run's to choose. One for the bottleneck
// alone (PipeDream's: cut and replicated for throughput) has no schedule either.
struct PlanFile {
  std::string model;
  std::optional<ModelSpec> spec;
  std::string schedule;             // empty: see above
  std::string timetable;            // of kOwnOrder, as FormatTimetableCsv writes it; else empty
  int devices = 1;                  // ranks of the pipeline
  int data_parallel = 1;            // replicas of it
  std::vector<int> stage_replicas;  // ranks of each stage, where not all have data_parallel
  int zero = 0;
  int chunks = 1;
  int micro_batches = 1;    // of each replica
  bool says_batch = false;  // the next three, and the model
  int64_t micro_batch_size = 1;
  int64_t seq = 1;
  DType dtype = DType::kFloat32;
  StageAssignment assignment;  // partition and recompute policy of each stage
  double step_seconds = 0;
  double bubble = 0;

  bool says_step() const { return !schedule.empty(); }
  int layer_count() const { return assignment.partition.back().last + 1; }
};

// Reads what FormatPlan wrote. InvalidArgument names `file` and the field that is missing, of the
// wrong kind, or does not fit the others: stages out of order, gaps between their layers, more or
// fewer stages than devices and chunks take, replicas of stages that do not add up to them.
absl::StatusOr<PlanFile> ParsePlan(absl::string_view json, absl::string_view file);

// Megatron-LM's --pipeline-model-parallel-layout: a stage's layers as letters (E embedding, t
// transformer block, L final norm and loss), stages apart by |: "Ett|ttt|ttt|ttL". InvalidArgument
// for anything but a GPT's layers, and for stages that are not dealt out round robin, as
// Megatron-LM's are: it would put them on other ranks than the plan.
absl::StatusOr<std::string> FormatMegatronLayout(const Placement& placement,
                                                 const Partition& partition,
                                                 const std::vector<std::string>& layer_names);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_FILE_H_
