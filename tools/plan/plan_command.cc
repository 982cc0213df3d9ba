#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "partitioner/planning/file.h"
#include "partitioner/planning/megatron_layout.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/plan/plan_drawing.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_graph.h"
#include "tools/plan/plan_limits.h"
#include "tools/plan/plan_search.h"
#include "tools/plan/plan_source.h"
#include "tools/plan/plan_table.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

// All that is shown of a plan.
struct Found {
  JointPlan best;
  PlanVariants variants;
};

std::vector<std::string> LayerNames(const CostTable& costs) {
  std::vector<std::string> names;
  for (const LayerCost& layer : costs.layers()) names.push_back(layer.name);
  return names;
}

absl::StatusOr<std::string> Render(const PlanFlags& flags, const PlanSource& source,
                                   const Found& found) {
  const Plan& plan = found.best.plan;
  const PlanContext& context = source.context;
  const bool json_file = absl::EndsWith(flags.output, ".json") && flags.format == "text";
  if (flags.json || flags.format == "json" || json_file) {
    return FormatPlan(plan, context, found.variants);
  }
  if (flags.format == "svg") return DrawPlan(plan);
  if (flags.format == "megatron") {
    absl::StatusOr<std::string> layout =
        FormatMegatronLayout(plan.timetable.placement, plan.partition(), context.layer_names);
    if (layout.ok()) *layout += "\n";
    return layout;
  }
  const bool colour = WantsColour() && flags.output.empty();
  const auto table = [&](const char* title,
                         const std::optional<std::vector<PlanVariant>>& variants) {
    return variants ? FormatVariants(title, *variants, plan, OutputColumns()) : "";
  };
  return FormatPlanTable(found.best, source, OutputColumns(), colour) +
         table("fastest for its memory", found.variants.pareto) +
         table("what if", found.variants.what_if);
}

absl::Status RunPlan(const PlanFlags& flags) {
  const absl::StatusOr<PlanChoices> choices = ReadChoices(flags);
  if (!choices.ok()) return choices.status();
  if (absl::Status status = CheckPlanLimits(flags, *choices); !status.ok()) return status;
  if (NamesGraphFile(flags.model)) {
    const absl::StatusOr<std::string> text = PlanGraph(flags, *choices);
    return text.ok() ? WriteOutput(flags.output, *text) : text.status();
  }
  absl::StatusOr<PlanSource> source = LoadPlanSource(flags, *choices);
  if (!source.ok()) return source.status();
  LimitSettings(&*source);
  const absl::StatusOr<JointRequest> request = MakeJointRequest(flags, *choices, *source);
  if (!request.ok()) return request.status();
  absl::StatusOr<JointPlan> best = FindPlan(*choices, *source, *request);
  if (!best.ok()) return best.status();
  Found found{*std::move(best), {}};
  if (flags.pareto) found.variants.pareto = ParetoFront(flags, *choices, *source);
  if (flags.what_if) found.variants.what_if = WhatIf(flags, *choices, *source, found.best);
  PlanContext& context = source->context;
  context.layer_names = LayerNames(*found.best.machines.costs);
  context.micro_batch_size = found.best.setting.micro_batch_size;
  context.data_parallel = found.best.setting.data;
  context.tensor_parallel = found.best.setting.tensor;
  context.sequence_parallel = flags.sequence_parallel && found.best.setting.tensor > 1;
  context.zero = flags.zero;
  const absl::StatusOr<std::string> text = Render(flags, *source, found);
  if (!text.ok()) return text.status();
  return WriteOutput(flags.output, *text);
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("plan", "Find the best partition and schedule of a model");
  command->footer(
      "Example: sluice plan gpt2 --devices 4 --device h200 --global-batch 64 -o plan.json");
  auto flags = std::make_shared<PlanFlags>();
  AddPlanFlags(*command, flags.get());
  command->callback([flags, exit_code] {
    const absl::Status status = RunPlan(*flags);
    if (status.ok()) return;
    *exit_code = Fail(status);
    if (status.code() == absl::StatusCode::kFailedPrecondition) *exit_code = kExitNoPlan;
  });
}

}  // namespace sluice
