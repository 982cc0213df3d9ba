#include "partitioner/planning/file/torchtitan_config.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "partitioner/planning/file/one_policy.h"

namespace sluice {
namespace {

// The schedule whose stages torchtitan places as the plan has them; what runs is the file.
absl::StatusOr<std::string> ScheduleWithPlacement(const Plan& plan) {
  const Placement& placement = plan.timetable.placement;
  const int ranks = placement.ranks(), stages = placement.stages();
  if (stages == 2 * ranks && placement.rank_of_stage() == Placement::V(ranks, 2).rank_of_stage()) {
    return "ZBVZeroBubble";
  }
  if (stages % ranks == 0 &&
      placement.rank_of_stage() == Placement::Looped(ranks, stages / ranks).rank_of_stage()) {
    return stages == ranks ? "1F1B" : "Interleaved1F1B";
  }
  return absl::InvalidArgumentError(
      absl::StrCat("torchtitan deals stages out round robin, or in a V with two per rank, and this "
                   "plan has ",
                   stages, " stages on ", ranks, " ranks in another way; give --schedule"));
}

absl::StatusOr<std::vector<std::string>> ModulesOf(const std::string& layer) {
  if (layer == "embedding") return std::vector<std::string>{"tok_embeddings"};
  if (layer == "head") return std::vector<std::string>{"norm", "output"};
  absl::string_view number = layer;
  if (absl::ConsumePrefix(&number, "block ")) {
    return std::vector<std::string>{absl::StrCat("layers.", number)};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "torchtitan's models have an embedding, transformer blocks and a head, not '", layer, "'"));
}

absl::StatusOr<std::string> ModuleLines(const Plan& plan, const PlanContext& context) {
  std::string lines;
  for (const PlanStage& stage : plan.stages) {
    std::vector<std::string> quoted;
    for (const int layer : stage.layers) {
      const auto modules = ModulesOf(context.layer_names[static_cast<size_t>(layer)]);
      if (!modules.ok()) return modules.status();
      for (const std::string& module : *modules) {
        quoted.push_back(absl::StrCat("\"", module, "\""));
      }
    }
    absl::StrAppend(&lines, "    [", absl::StrJoin(quoted, ", "), "],\n");
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::string> FormatTorchTitanConfig(const Plan& plan, const PlanContext& context,
                                                   const std::string& csv) {
  if (context.graph) {
    return absl::InvalidArgumentError(
        "torchtitan trains transformers, not graphs of operations; give a model");
  }
  if (context.zero > 0 || context.mirror) {
    return absl::InvalidArgumentError(
        absl::StrCat("torchtitan's replicas keep everything or also share out weights (FSDP); ",
                     context.mirror ? "leave --mirror out" : "give --zero 0"));
  }
  const absl::StatusOr<std::string> schedule = ScheduleWithPlacement(plan);
  if (!schedule.ok()) return schedule.status();
  const absl::StatusOr<Recompute> recompute = OnePolicy(plan, "torchtitan");
  if (!recompute.ok()) return recompute.status();
  const absl::StatusOr<std::string> modules = ModuleLines(plan, context);
  if (!modules.ok()) return modules.status();
  const int64_t local_batch = plan.micro_batches * context.micro_batch_size;
  return absl::StrCat(
      "[parallelism]\npipeline_parallel_degree = ", plan.devices,
      "\npipeline_parallel_schedule = \"", *schedule, "\"\npipeline_parallel_schedule_csv = \"",
      absl::CEscape(csv), "\"\npipeline_parallel_microbatch_size = ", context.micro_batch_size,
      "\nmodule_fqns_per_model_part = [\n", *modules,
      "]\ndata_parallel_replicate_degree = ", context.data_parallel,
      "\ndata_parallel_shard_degree = 1\ntensor_parallel_degree = ", context.tensor_parallel,
      "\n\n[training]\nlocal_batch_size = ", local_batch,
      "\nglobal_batch_size = ", local_batch * context.data_parallel, "\nseq_len = ", context.seq,
      "\n\n[activation_checkpoint]\nmode = \"", RecomputeName(*recompute), "\"\n");
}

}  // namespace sluice
