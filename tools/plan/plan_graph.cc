#include "tools/plan/plan_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/search/graph_partition.h"
#include "tools/files.h"
#include "tools/plan/plan_graph_step.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

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

Json StageJson(const ProfileGraph& graph, const GraphPlan& plan, size_t s) {
  const GraphStage& stage = plan.stages[s];
  Json names = Json::array();
  for (const int node : stage.nodes) names.push_back(graph.nodes[node].id);
  // Numbers of layers mean something only where there is one order.
  const bool chain = graph.IsChain();
  return {{"stage", s},
          {"rank", s},
          {"first_layer", chain ? Json(stage.nodes.front()) : Json()},
          {"last_layer", chain ? Json(stage.nodes.back()) : Json()},
          {"layer_names", std::move(names)},
          {"replicas", stage.replicas},
          {"forward_seconds", stage.forward_seconds},
          {"backward_seconds", stage.backward_seconds},
          {"parameter_bytes", stage.parameter_bytes},
          {"activation_bytes_per_micro_batch", stage.activation_bytes},
          {"in_flight", stage.in_flight},
          {"send_bytes", stage.send_bytes},
          {"peak_bytes", stage.peak_bytes()}};
}

std::string FormatJson(const GraphRequest& request, const GraphPlan& plan,
                       const std::string& model) {
  Json stages = Json::array();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    stages.push_back(StageJson(*request.graph, plan, s));
  }
  const Json document = {{"model", model},
                         {"devices", request.devices},
                         {"objective", "bottleneck"},
                         {"bottleneck_seconds", plan.bottleneck_seconds},
                         {"lower_bound", plan.bottleneck_seconds},
                         {"gap", 0},
                         {"optimal", true},
                         {"cuts", plan.cuts},
                         {"stages", std::move(stages)}};
  return document.dump(2) + "\n";
}

std::string FormatText(const GraphRequest& request, const GraphPlan& plan,
                       const std::string& model) {
  constexpr int kFixedColumns = 73;
  const int columns = std::max(12, OutputColumns() - kFixedColumns);
  const ProfileGraph& graph = *request.graph;
  std::string out =
      fmt::format("{} on {} devices\n  {} operations, which can be cut in {} ways\n\n", model,
                  request.devices, graph.nodes.size(), plan.cuts);
  out += "  stage devices operations   forward  backward  parameters       sends        peak\n";
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphStage& stage = plan.stages[s];
    out += fmt::format("  {:>5} {:>7} {:>10} {:>9} {:>9} {:>11} {:>11} {:>11}  {}\n", s,
                       stage.replicas, stage.nodes.size(), FormatSeconds(stage.forward_seconds),
                       FormatSeconds(stage.backward_seconds), FormatBytes(stage.parameter_bytes),
                       s + 1 == plan.stages.size() ? "" : FormatBytes(stage.send_bytes),
                       FormatBytes(stage.peak_bytes()),
                       columns > 16 ? NameNodes(graph, stage.nodes, columns) : "");
    while (out[out.size() - 2] == ' ') out.erase(out.size() - 2, 1);
  }
  out += fmt::format("\n  bottleneck {} a micro-batch\n  optimal    proved over every cut\n",
                     FormatSeconds(plan.bottleneck_seconds));
  return out;
}

absl::StatusOr<std::string> PlanBottleneck(const ProfileGraph& graph, const PlanFlags& flags,
                                           const PlanChoices& choices) {
  GraphRequest request;
  request.graph = &graph;
  request.devices = flags.devices;
  if (choices.bandwidth) request.bandwidth = *choices.bandwidth;
  if (choices.memory) request.memory = static_cast<double>(*choices.memory);
  request.replicate = flags.data_parallel == "auto";
  const absl::StatusOr<GraphPlan> plan = FindGraphPartition(request);
  if (!plan.ok()) return plan.status();
  const bool json = flags.json || flags.format == "json" || absl::EndsWith(flags.output, ".json");
  return json ? FormatJson(request, *plan, flags.model.model)
              : FormatText(request, *plan, flags.model.model);
}

}  // namespace

absl::StatusOr<std::string> PlanGraph(const PlanFlags& flags, const PlanChoices& choices) {
  if (absl::Status status = CheckFlags(flags, choices); !status.ok()) return status;
  const absl::StatusOr<std::string> text = ReadFile(flags.model.model);
  if (!text.ok()) return text.status();
  const absl::StatusOr<ProfileGraph> graph = ParseProfileGraph(*text, flags.model.model);
  if (!graph.ok()) return graph.status();
  if (choices.objective == PlanObjective::kStep) return PlanGraphStep(*graph, flags, choices);
  return PlanBottleneck(*graph, flags, choices);
}

}  // namespace sluice
