#include <nlohmann/json.hpp>
#include <utility>

#include "models/spec/json_text.h"
#include "partitioner/costs/model_json.h"
#include "partitioner/orders/custom_order.h"
#include "partitioner/planning/file/plan_file.h"
#include "schedules/csv.h"

// PLAN.md has the format, key by key.
namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// A profile's bytes are whole numbers, which have always been written as 1.0 rather than 1.
Json Bytes(const PlanContext& context, int64_t bytes) {
  return context.graph ? Json(static_cast<double>(bytes)) : Json(bytes);
}

Json StageJson(const Plan& plan, const PlanContext& context, size_t s) {
  const PlanStage& stage = plan.stages[s];
  const RangeCost& cost = stage.cost;
  const bool last = s + 1 == plan.stages.size();
  Json names = Json::array();
  for (const int layer : stage.layers) names.push_back(context.layer_names[layer]);
  Json json;
  json["stage"] = s;
  json["rank"] = stage.rank;
  if (!context.rank_devices.empty()) {
    const RankDevices& devices = context.rank_devices[stage.rank];
    json["device"] = devices.kind;
    json["first_device"] = devices.first;
    json["last_device"] = devices.last;
  }
  json["first_layer"] = context.one_order ? Json(stage.layers.front()) : Json();
  json["last_layer"] = context.one_order ? Json(stage.layers.back()) : Json();
  json["layer_names"] = std::move(names);
  json["replicas"] = context.graph ? stage.replicas : context.data_parallel;
  json["forward_seconds"] = cost.forward;
  json["backward_seconds"] = cost.backward();
  if (!context.graph) {
    json["tail_seconds"] = cost.tail;
    if (cost.tied_exchange > 0) json["tied_exchange_seconds"] = cost.tied_exchange;
    json["parameters"] = cost.parameters;
  }
  json["parameter_bytes"] = Bytes(context, cost.parameter_bytes);
  json["activation_bytes_per_micro_batch"] = Bytes(context, cost.activation_bytes);
  if (context.graph) json["in_flight"] = stage.in_flight;
  json["send_bytes"] = Bytes(context, last ? 0 : cost.output_bytes);
  json["peak_bytes"] = Bytes(context, plan.peak_bytes[stage.rank]);
  if (context.audit_every > 0) json["audit_bytes"] = plan.audit_bytes[stage.rank];
  if (!context.graph) json["in_flight"] = stage.in_flight;
  if (plan.has_schedule()) json["recompute"] = RecomputeName(stage.recompute);
  return json;
}

// What was planned, and how the devices are used.
void AddSetting(const Plan& plan, const PlanContext& context, Json* json) {
  Json& out = *json;
  out["model"] = context.model;
  out["devices"] = context.DeviceCount(plan);
  if (plan.has_schedule()) {
    out["schedule"] = plan.schedule;
    out["chunks"] = plan.chunks;
    out["micro_batches"] = plan.micro_batches;
  }
  if (!context.graph) {
    out["parameters"] = context.parameters;
    out["micro_batch_size"] = context.micro_batch_size;
    out["seq"] = context.seq;
    out["dtype"] = DTypeName(context.dtype);
    if (const std::string trained = context.adaptation.ToString(); !trained.empty())
      out["adaptation"] = trained;
    if (context.master_weights == MasterWeights::kSplit)
      out["master_weights"] = MasterWeightsName(context.master_weights);
    AddAttention(context.attention, json);
  }
  if (plan.has_schedule()) out["data_parallel"] = context.data_parallel;
  if (!context.graph) {
    out["tensor_parallel"] = context.tensor_parallel;
    out["pipeline_parallel"] = plan.devices;
    out["sequence_parallel"] = context.sequence_parallel;
    out["zero"] = context.zero;
    if (context.mirror) out["mirror"] = true;
    if (context.audit_every > 0) out["audit"] = context.audit_every;
  }
  out["objective"] = plan.objective == PlanObjective::kStep ? "step" : "bottleneck";
}

// What it takes, and what is proved of that.
void AddSeconds(const Plan& plan, const PlanContext& context, Json* json) {
  Json& out = *json;
  if (plan.has_schedule()) {
    out["step_seconds"] = plan.step_seconds;
    if (context.audit_every > 0) out["audit_seconds"] = plan.audit_seconds;
  } else {
    out["bottleneck_seconds"] = plan.bottleneck_seconds;
  }
  out["lower_bound"] = plan.lower_bound;
  // What is proved without a schedule has always been written as 0 rather than 0.0.
  out["gap"] = plan.has_schedule() || !plan.optimal ? Json(plan.gap()) : Json(0);
  out["optimal"] = plan.optimal;
  if (plan.has_schedule()) {
    out["bottleneck_seconds"] = plan.bottleneck_seconds;
    out["bubble"] = plan.bubble;
  }
  if (context.graph) {
    out["cuts"] = plan.cuts;
    if (!plan.all_cuts) out["all_cuts"] = false;
    return;
  }
  const bool takes_time = plan.step_seconds > 0;
  out["tokens_per_second"] = takes_time ? context.TokensPerSecond(plan) : 0.0;
  if (!takes_time) return;
  out["tokens_per_second_per_device"] = context.TokensPerSecondOfDevice(plan);
  if (const auto flops = context.FlopsPerSecondOfDevice(plan))
    out["flops_per_second_per_device"] = *flops;
  if (const auto mfu = context.Mfu(plan)) out["mfu"] = *mfu;
}

// What the timetable was priced with, as `schedule --costs` reads it. An edge's latency is what is
// left of its seconds without the part in which bytes hold the link.
Json CostsJson(const Plan& plan) {
  const StepCosts& costs = plan.stage_costs;
  Json json;
  json["F"] = costs.forward;
  json["I"] = costs.input_grad;
  json["W"] = costs.weight_grad;
  json["B"] = costs.backward;
  if (!costs.recompute.empty()) json["RECOMPUTE"] = costs.recompute;
  if (costs.overlap >= 0) json["overlap"] = costs.overlap;
  json["send"] = costs.send;
  for (size_t edge = 0; edge < costs.link_busy.size(); ++edge) {
    const double busy = costs.link_busy[edge];
    const auto bytes = static_cast<double>(plan.stages[edge].cost.output_bytes);
    const bool holds = busy > 0 && bytes > 0;
    json["send"][edge] = std::max(0.0, costs.send[edge] - (holds ? busy : 0));
    json["send_bytes"].push_back(holds ? bytes : 0);
    json["bandwidth"].push_back(holds ? bytes / busy : 1);
  }
  if (!costs.activation_bytes.empty()) json["activation_bytes"] = costs.activation_bytes;
  if (!costs.weight_grad_bytes.empty()) json["weight_grad_bytes"] = costs.weight_grad_bytes;
  if (!costs.checkpoint_bytes.empty()) json["checkpoint_bytes"] = costs.checkpoint_bytes;
  return json;
}

Json VariantsJson(const std::vector<PlanVariant>& variants, PlanObjective objective) {
  Json list = Json::array();
  for (const PlanVariant& variant : variants) {
    Json entry;
    if (!variant.what.empty()) entry["what"] = variant.what;
    if (variant.why.empty()) {
      entry["step_seconds"] = variant.step_seconds;
      if (objective == PlanObjective::kBottleneck) entry["bottleneck_seconds"] = variant.seconds;
      entry["peak_bytes"] = variant.bytes;
      entry["plan"] = variant.description;
    } else {
      entry["why"] = variant.why;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string FormatPlan(const Plan& plan, const PlanContext& context, const PlanVariants& variants) {
  Json json;
  AddSetting(plan, context, &json);
  AddSeconds(plan, context, &json);
  if (!context.graph) json["partition"] = FormatPartition(plan.partition());
  if (plan.schedule == kCustomOrder) json["timetable"] = FormatTimetableCsv(plan.timetable);
  if (context.spec) json["model_config"] = ModelToJson(*context.spec);
  if (plan.has_schedule() && !plan.has_replicas()) json["costs"] = CostsJson(plan);
  json["stages"] = Json::array();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    json["stages"].push_back(StageJson(plan, context, s));
  }
  if (plan.has_schedule()) {
    json["rejected"] = Json::array();
    for (const RejectedPlan& rejected : plan.rejected) {
      json["rejected"].push_back({{"what", rejected.what}, {"why", rejected.why}});
    }
  }
  if (variants.pareto) json["pareto"] = VariantsJson(*variants.pareto, plan.objective);
  if (variants.what_if) json["what_if"] = VariantsJson(*variants.what_if, plan.objective);
  return JsonText(json, 2) + "\n";
}

}  // namespace sluice
