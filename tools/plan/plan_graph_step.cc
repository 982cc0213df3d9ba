#include "tools/plan/plan_graph_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "models/spec/units.h"
#include "partitioner/planning/graph_step.h"
#include "schedules/render/render.h"
#include "schedules/simulate/dealt_times.h"
#include "tools/plan/plan_search.h"
#include "tools/plan/plan_table.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRejected = 6;

Json StageJson(const ProfileGraph& graph, const GraphStepPlan& plan, size_t s) {
  const GraphStepStage& stage = plan.stages[s];
  const GraphStage& work = stage.work;
  Json names = Json::array();
  for (const int node : work.nodes) names.push_back(graph.nodes[node].id);
  const bool chain = graph.IsChain();
  return {{"stage", s},
          {"rank", stage.rank},
          {"first_layer", chain ? Json(work.nodes.front()) : Json()},
          {"last_layer", chain ? Json(work.nodes.back()) : Json()},
          {"layer_names", std::move(names)},
          {"replicas", work.replicas},
          {"forward_seconds", work.forward_seconds},
          {"backward_seconds", work.backward_seconds},
          {"parameter_bytes", work.parameter_bytes},
          {"activation_bytes_per_micro_batch", work.activation_bytes},
          {"in_flight", work.in_flight},
          {"send_bytes", work.send_bytes},
          {"peak_bytes", stage.peak_bytes},
          {"recompute", "none"}};
}

std::string FormatJson(const GraphStepRequest& request, const GraphStepPlan& plan,
                       const std::string& model) {
  Json stages = Json::array(), rejected = Json::array();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    stages.push_back(StageJson(*request.graph, plan, s));
  }
  for (const RejectedPlan& each : plan.rejected) {
    rejected.push_back({{"what", each.what}, {"why", each.why}});
  }
  const Json document = {{"model", model},
                         {"devices", request.devices},
                         {"schedule", plan.schedule},
                         {"chunks", plan.chunks},
                         {"micro_batches", request.micro_batches},
                         {"data_parallel", 1},
                         {"objective", "step"},
                         {"step_seconds", plan.step_seconds},
                         {"lower_bound", plan.lower_bound},
                         {"gap", plan.gap()},
                         {"optimal", plan.optimal},
                         {"bottleneck_seconds", plan.bottleneck_seconds},
                         {"bubble", plan.bubble},
                         {"cuts", plan.cuts},
                         {"stages", std::move(stages)},
                         {"rejected", std::move(rejected)}};
  return document.dump(2) + "\n";
}

// "3", or "0-7".
std::string DevicesOf(const GraphStepStage& stage) {
  if (stage.work.replicas == 1) return fmt::format("{}", stage.rank);
  return fmt::format("{}-{}", stage.rank, stage.rank + stage.work.replicas - 1);
}

std::string FormatStages(const ProfileGraph& graph, const GraphStepPlan& plan) {
  constexpr int kFixedColumns = 73;
  const int columns = std::max(12, OutputColumns() - kFixedColumns);
  std::string out =
      "  stage devices operations   forward  backward  parameters       sends        peak\n";
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphStage& work = plan.stages[s].work;
    out += fmt::format("  {:>5} {:>7} {:>10} {:>9} {:>9} {:>11} {:>11} {:>11}  {}\n", s,
                       DevicesOf(plan.stages[s]), work.nodes.size(),
                       FormatSeconds(work.forward_seconds), FormatSeconds(work.backward_seconds),
                       FormatBytes(work.parameter_bytes),
                       s + 1 == plan.stages.size() ? "" : FormatBytes(work.send_bytes),
                       FormatBytes(plan.stages[s].peak_bytes),
                       columns > 16 ? NameNodes(graph, work.nodes, columns) : "");
    while (out[out.size() - 2] == ' ') out.erase(out.size() - 2, 1);
  }
  return out;
}

std::string FormatText(const GraphStepRequest& request, const GraphStepPlan& plan,
                       const std::string& model) {
  std::string out = fmt::format(
      "{} on {} devices: {}, {} micro-batches\n  {} operations, which can be cut in {} ways\n\n",
      model, request.devices, plan.description, request.micro_batches, request.graph->nodes.size(),
      plan.cuts);
  out += FormatStages(*request.graph, plan);
  out += fmt::format("\n  step       {}, bubble {:.1f} %\n", FormatSeconds(plan.step_seconds),
                     100 * plan.bubble);
  out += plan.optimal ? "  optimal    proved over every cut and the schedules tried\n"
                      : fmt::format("  at best    {}, so at most {:.2f} % longer than need be\n",
                                    FormatSeconds(plan.lower_bound), 100 * plan.gap());
  if (plan.rejected.empty()) return out;
  return out + "\n  not chosen\n" + FormatRejected(plan.rejected, kMostRejected, OutputColumns());
}

// One step on its devices, with what is proved over all plans.
absl::StatusOr<std::string> Draw(const GraphStepPlan& plan) {
  std::vector<int> replicas;
  for (const GraphStepStage& stage : plan.stages) replicas.push_back(stage.work.replicas);
  Timetable table = plan.timetable;
  absl::StatusOr<Simulation> run;
  if (*std::max_element(replicas.begin(), replicas.end()) > 1) {
    const DealtTimetable dealt(plan.timetable, StageDeal(std::move(replicas), 1));
    run = SimulateDealt(dealt, plan.costs, plan.costs.tail, Detail::kEveryAction);
    table = DrawnTable(dealt);
  } else {
    run = Simulate(table, plan.costs);
  }
  if (!run.ok()) return run.status();
  run->lower_bound = plan.lower_bound;
  run->gap = plan.gap();
  return RenderSvg(*run, table);
}

absl::Status CheckFlags(const PlanFlags& flags, const PlanChoices& choices) {
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

}  // namespace

std::string NameNodes(const ProfileGraph& graph, const std::vector<int>& nodes, size_t columns) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string part = fmt::format("{}{}", i == 0 ? "" : " ", graph.nodes[nodes[i]].id);
    const bool last = i + 1 == nodes.size();
    if (text.size() + part.size() + (last ? 0 : 4) > columns) return text + " ...";
    text += part;
  }
  return text;
}

absl::StatusOr<std::string> PlanGraphStep(const ProfileGraph& graph, const PlanFlags& flags,
                                          const PlanChoices& choices) {
  if (absl::Status status = CheckFlags(flags, choices); !status.ok()) return status;
  GraphStepRequest request;
  request.graph = &graph;
  request.devices = flags.devices;
  request.micro_batches = flags.micro_batches.value_or(kDefaultMicroBatches);
  request.schedule = flags.schedule;
  request.chunks = flags.chunks.value_or(0);
  if (choices.bandwidth) request.link.bandwidth = *choices.bandwidth;
  if (choices.latency) request.link.latency = *choices.latency;
  if (choices.memory) request.memory = static_cast<double>(*choices.memory);
  request.replicate = flags.data_parallel == "auto";
  request.gap = choices.gap;
  request.stop = StopAfter(choices.time_limit);
  const absl::StatusOr<GraphStepPlan> plan = FindGraphStepPlan(request);
  if (!plan.ok()) return plan.status();
  if (flags.format == "svg" && !flags.json) return Draw(*plan);
  const bool json = flags.json || flags.format == "json" || flags.output.ends_with(".json");
  return json ? FormatJson(request, *plan, flags.model.model)
              : FormatText(request, *plan, flags.model.model);
}

}  // namespace sluice
