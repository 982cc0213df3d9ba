#include "tools/plan/plan_graph.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/spec/profile_graph.h"
#include "partitioner/planning/file.h"
#include "partitioner/planning/graph_bottleneck.h"
#include "partitioner/planning/graph_step.h"
#include "tools/files.h"
#include "tools/plan/graph_table.h"
#include "tools/plan/plan_drawing.h"
#include "tools/plan/plan_search.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

absl::Status CheckFlags(const PlanFlags& flags, const PlanChoices& choices) {
  const auto refuse = [&](const char* what) {
    return absl::UnimplementedError(absl::StrCat(flags.model.model, " is a graph of operations; ",
                                                 what, " is not available for one yet"));
  };
  if (!flags.partition.empty()) return refuse("--partition");
  if (flags.pareto) return refuse("--pareto");
  if (flags.what_if) return refuse("--what-if");
  const bool drawn = flags.format == "svg" && choices.objective == PlanObjective::kStep;
  if (flags.format != "text" && flags.format != "json" && !drawn) return refuse("this --format");
  if (choices.objective == PlanObjective::kBottleneck) {
    // It has no timetable, and counts no latency.
    if (choices.latency) return refuse("--latency with --objective bottleneck");
    if (flags.chunks.value_or(1) != 1) return refuse("--chunks with --objective bottleneck");
  }
  return RefuseShapeFlags(flags.model);
}

// What does not go with a step of a graph.
absl::Status CheckStepFlags(const PlanFlags& flags, const PlanChoices& choices) {
  if (choices.data_parallel && choices.data_parallel != 1) {
    return absl::UnimplementedError(
        "a graph of operations is replicated stage by stage: --data-parallel auto");
  }
  if (flags.global_batch || !flags.micro_batch_size.empty()) {
    return absl::InvalidArgumentError(
        "a graph.txt was measured with one size of micro-batch; give --micro-batches");
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> PlanBottleneck(const ProfileGraph& graph, const PlanFlags& flags,
                                    const PlanChoices& choices) {
  GraphRequest request;
  request.graph = &graph;
  request.devices = flags.devices;
  if (choices.bandwidth) request.bandwidth = *choices.bandwidth;
  if (choices.memory) request.memory = static_cast<double>(*choices.memory);
  request.replicate = !choices.data_parallel;
  return FindGraphBottleneckPlan(request);
}

absl::StatusOr<Plan> PlanStep(const ProfileGraph& graph, const PlanFlags& flags,
                              const PlanChoices& choices) {
  if (absl::Status status = CheckStepFlags(flags, choices); !status.ok()) return status;
  GraphStepRequest request;
  request.graph = &graph;
  request.devices = flags.devices;
  request.micro_batches = flags.micro_batches.value_or(kDefaultMicroBatches);
  request.schedule = flags.schedule;
  request.chunks = flags.chunks.value_or(0);
  if (choices.bandwidth) request.link.bandwidth = *choices.bandwidth;
  if (choices.latency) request.link.latency = *choices.latency;
  if (choices.memory) request.memory = static_cast<double>(*choices.memory);
  request.replicate = !choices.data_parallel;
  request.gap = choices.gap;
  request.stop = StopAfter(choices.time_limit);
  return FindGraphStepPlan(request);
}

PlanContext ContextOf(const ProfileGraph& graph, const std::string& model) {
  PlanContext context;
  context.model = model;
  context.graph = true;
  // Numbers of layers mean something only where there is one order.
  context.one_order = graph.IsChain();
  for (const ProfileNode& node : graph.nodes) context.layer_names.push_back(node.id);
  return context;
}

std::string Render(const PlanFlags& flags, const Plan& plan, const PlanContext& context) {
  if (flags.format == "svg" && !flags.json) return DrawPlan(plan);
  const bool json = flags.json || flags.format == "json" || absl::EndsWith(flags.output, ".json");
  return json ? FormatPlan(plan, context) : FormatGraphTable(plan, context, OutputColumns());
}

}  // namespace

absl::StatusOr<std::string> PlanGraph(const PlanFlags& flags, const PlanChoices& choices) {
  if (absl::Status status = CheckFlags(flags, choices); !status.ok()) return status;
  const absl::StatusOr<std::string> text = ReadFile(flags.model.model);
  if (!text.ok()) return text.status();
  const absl::StatusOr<ProfileGraph> graph = ParseProfileGraph(*text, flags.model.model);
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<Plan> plan = choices.objective == PlanObjective::kStep
                                        ? PlanStep(*graph, flags, choices)
                                        : PlanBottleneck(*graph, flags, choices);
  if (!plan.ok()) return plan.status();
  return Render(flags, *plan, ContextOf(*graph, flags.model.model));
}

}  // namespace sluice
