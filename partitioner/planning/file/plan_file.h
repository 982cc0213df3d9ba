#ifndef SLUICE_PARTITIONER_PLANNING_FILE_PLAN_FILE_H_
#define SLUICE_PARTITIONER_PLANNING_FILE_PLAN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/adaptation.h"
#include "models/spec/cuda_attention.h"
#include "models/spec/dtype.h"
#include "models/spec/model_spec.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"
#include "partitioner/planning/plan/plan_variant.h"
#include "schedules/timetable.h"

namespace sluice {

// The plan as JSON text in SI base units, as PLAN.md describes it: what `sluice plan --format json`
// prints and ParsePlan reads back. `variants` are written behind the plan, and not read back.
std::string FormatPlan(const Plan& plan, const PlanContext& context,
                       const PlanVariants& variants = {});

// What a run needs of a plan. A plan of a profiled chain says what its operations cost, not what
// they are: the run chooses the model and the shape of a micro-batch. One for the bottleneck alone
// (cut and replicated for throughput, as PipeDream's) has no schedule either.
struct PlanFile {
  std::string model;
  std::optional<ModelSpec> spec;
  std::string schedule;             // empty for the bottleneck alone
  std::string timetable;            // of kCustomOrder, as FormatTimetableCsv writes it; else empty
  int devices = 1;                  // ranks of the pipeline
  int data_parallel = 1;            // replicas of it
  int tensor_parallel = 1;          // devices that share each stage; more than 1 cannot be trained
  std::vector<int> stage_replicas;  // ranks of each stage, where not all have data_parallel
  int zero = 0;
  bool mirror = false;
  int audit_every = 0;
  int chunks = 1;
  int micro_batches = 1;    // of each replica
  bool says_batch = false;  // whether the next three, and the model, were in the file
  int64_t micro_batch_size = 1;
  int64_t seq = 1;
  DType dtype = DType::kFloat32;
  Adaptation adaptation;  // what of the model is trained
  MasterWeights master_weights = MasterWeights::kWhole;
  CudaAttention attention = CudaAttention::kSluice;  // of GPUs
  StageAssignment assignment;                        // partition and recompute policy of each stage
  bool branches = false;  // of a graph: its stages are no ranges, so there is no partition
  double step_seconds = 0;
  double bubble = 0;
  std::vector<int> stage_ranks;  // where each stage says that it is; empty: not all of them do
  std::string costs;  // of the timetable, as the file of `schedule --costs` has them; or empty

  bool says_step() const { return !schedule.empty(); }
  // 0 of a graph with branches.
  int layer_count() const { return branches ? 0 : assignment.partition.back().last + 1; }
};

// Reads what FormatPlan wrote. InvalidArgument names `file` and the field that is missing, of the
// wrong kind, or does not fit the others: stages out of order, gaps between their layers, more or
// fewer stages than devices and chunks take, another `partition` than theirs, replicas of stages
// that do not add up to them.
absl::StatusOr<PlanFile> ParsePlan(absl::string_view json, absl::string_view file);

// InvalidArgument where a stage of the plan in `file` says that it is on another rank than the one
// on which `placement`, of the plan's schedule, has it.
absl::Status CheckStageRanks(const PlanFile& plan, const Placement& placement,
                             absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_FILE_PLAN_FILE_H_
