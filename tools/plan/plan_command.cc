#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "partitioner/planning/plan_file.h"
#include "schedules/render/render.h"
#include "tools/command.h"
#include "tools/files.h"
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
  std::vector<PlanVariant> front, variants;
};

std::vector<std::string> LayerNames(const CostTable& costs) {
  std::vector<std::string> names;
  for (const LayerCost& layer : costs.layers()) names.push_back(layer.name);
  return names;
}

nlohmann::ordered_json VariantsJson(const std::vector<PlanVariant>& variants) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlanVariant& variant : variants) {
    nlohmann::ordered_json entry;
    if (!variant.what.empty()) entry["what"] = variant.what;
    if (variant.why.empty()) {
      entry["step_seconds"] = variant.seconds;
      entry["peak_bytes"] = variant.bytes;
      entry["plan"] = variant.description;
    } else {
      entry["why"] = variant.why;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::string FormatJson(const PlanFlags& flags, const PlanSource& source, const Found& found) {
  nlohmann::ordered_json json =
      PlanToJson(found.best.plan, source.context, LayerNames(*found.best.machines.costs));
  if (flags.pareto) json["pareto"] = VariantsJson(found.front);
  if (flags.what_if) json["what_if"] = VariantsJson(found.variants);
  return json.dump(2) + "\n";
}

absl::StatusOr<std::string> Render(const PlanFlags& flags, const PlanSource& source,
                                   const Found& found) {
  const Plan& plan = found.best.plan;
  const bool json_file = absl::EndsWith(flags.output, ".json") && flags.format == "text";
  if (flags.json || flags.format == "json" || json_file) return FormatJson(flags, source, found);
  if (flags.format == "svg") return RenderSvg(plan.simulation, plan.timetable);
  if (flags.format == "megatron") {
    absl::StatusOr<std::string> layout =
        FormatMegatronLayout(plan.timetable.placement, plan.assignment.partition,
                             LayerNames(*found.best.machines.costs));
    if (layout.ok()) *layout += "\n";
    return layout;
  }
  const bool colour = WantsColour() && flags.output.empty();
  return FormatPlanTable(found.best, source, OutputColumns(), colour) +
         FormatVariants("fastest for its memory", found.front, plan, OutputColumns()) +
         FormatVariants("what if", found.variants, plan, OutputColumns());
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
  Found found{*std::move(best), {}, {}};
  if (flags.pareto) found.front = ParetoFront(flags, *choices, *source);
  if (flags.what_if) found.variants = WhatIf(flags, *choices, *source, found.best);
  PlanContext& context = source->context;
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
