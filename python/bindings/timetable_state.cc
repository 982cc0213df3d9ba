#include "python/bindings/timetable_state.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"
#include "schedules/simulate/bound.h"

namespace sluice::python {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

// [op, overlaps_next, stage, micro_batch], and of one that was simulated [..., start, end].
Json ToJson(const Action& action) {
  return {static_cast<int>(action.op), static_cast<int>(action.overlaps_next), action.stage,
          action.micro_batch};
}

Json ToJson(const TimedAction& timed) {
  Json json = ToJson(timed.action);
  json.push_back(timed.start);
  json.push_back(timed.end);
  return json;
}

Action ActionOf(const Json& json) {
  return {.op = static_cast<Op>(json.at(0).get<uint8_t>()),
          .overlaps_next = json.at(1).get<int>() != 0,
          .stage = json.at(2).get<uint16_t>(),
          .micro_batch = json.at(3).get<int32_t>()};
}

TimedAction TimedActionOf(const Json& json) {
  return {ActionOf(json), json.at(4).get<double>(), json.at(5).get<double>()};
}

template <typename Item>
Json RowsToJson(const std::vector<std::vector<Item>>& rows) {
  Json json = Json::array();
  for (const std::vector<Item>& row : rows) {
    json.push_back(Json::array());
    for (const Item& item : row) json.back().push_back(ToJson(item));
  }
  return json;
}

template <typename Item>
std::vector<std::vector<Item>> RowsOf(const Json& json, Item (*read)(const Json&)) {
  std::vector<std::vector<Item>> rows;
  for (const Json& row : json) {
    rows.emplace_back();
    for (const Json& item : row) rows.back().push_back(read(item));
  }
  return rows;
}

// One copy, two, or stages that ranks share, for drawing.
Placement PlacementOf(std::vector<int> rank_of_stage, int ranks, int copies) {
  if (copies > 1) return Placement::Bidirectional(ranks);
  absl::StatusOr<Placement> placement = Placement::FromRanks(rank_of_stage);
  if (placement.ok() && placement->ranks() == ranks) return *std::move(placement);
  return Placement::OfFirstRanks(std::move(rank_of_stage), ranks);
}

Json ToJson(const Timetable& table) {
  return {{"name", table.name},
          {"ranks", table.placement.ranks()},
          {"rank_of_stage", table.placement.rank_of_stage()},
          {"copies", table.placement.copies()},
          {"micro_batches", table.micro_batches},
          {"updates", static_cast<int>(table.updates)},
          {"update_every", table.update_every},
          {"rows", RowsToJson(table.rows)}};
}

Timetable TimetableOf(const Json& json) {
  return {.name = json.at("name"),
          .placement =
              PlacementOf(json.at("rank_of_stage"), json.at("ranks").get<int>(), json.at("copies")),
          .micro_batches = json.at("micro_batches"),
          .updates = static_cast<WeightUpdates>(json.at("updates").get<uint8_t>()),
          .update_every = json.at("update_every"),
          .rows = RowsOf(json.at("rows"), ActionOf)};
}

// One table for both directions: the lists of StageCosts.
struct CostField {
  const char* name;
  std::vector<double> StageCosts::*values;
};
constexpr CostField kCostFields[] = {{"F", &StageCosts::forward},
                                     {"I", &StageCosts::input_grad},
                                     {"W", &StageCosts::weight_grad},
                                     {"B", &StageCosts::backward},
                                     {"RECOMPUTE", &StageCosts::recompute},
                                     {"send", &StageCosts::send},
                                     {"link_busy", &StageCosts::link_busy},
                                     {"activation_bytes", &StageCosts::activation_bytes},
                                     {"weight_grad_bytes", &StageCosts::weight_grad_bytes},
                                     {"checkpoint_bytes", &StageCosts::checkpoint_bytes}};

Json ToJson(const ScheduleCosts& costs) {
  Json json = {{"overlap", costs.stages.overlap},
               {"device_memory", costs.device_memory},
               {"seconds", costs.seconds}};
  for (const CostField& field : kCostFields) json[field.name] = costs.stages.*field.values;
  return json;
}

ScheduleCosts CostsOf(const Json& json) {
  ScheduleCosts costs;
  costs.stages.overlap = json.at("overlap");
  costs.device_memory = json.at("device_memory").get<std::vector<double>>();
  costs.seconds = json.at("seconds");
  for (const CostField& field : kCostFields)
    costs.stages.*field.values = json.at(field.name).get<std::vector<double>>();
  return costs;
}

Json ToJson(const Simulation& run) {
  Json path = Json::array(), why = Json::array();
  for (const TimedAction& action : run.critical_path) path.push_back(ToJson(action));
  for (const Cause::Kind kind : run.critical_path_why) why.push_back(static_cast<int>(kind));
  return {{"rows", RowsToJson(run.rows)},
          {"makespan", run.makespan},
          {"bubble", run.bubble},
          {"span", run.span},
          {"span_bubble", run.span_bubble},
          {"lower_bound", run.lower_bound},
          {"work", run.work},
          {"utilisation", run.utilisation},
          {"peak_activations", run.peak_activations},
          {"peak_bytes", run.peak_bytes},
          {"critical_path", std::move(path)},
          {"critical_path_why", std::move(why)}};
}

Simulation SimulationOf(const Json& json) {
  Simulation run;
  run.rows = RowsOf(json.at("rows"), TimedActionOf);
  run.makespan = json.at("makespan");
  run.bubble = json.at("bubble");
  run.span = json.at("span");
  run.span_bubble = json.at("span_bubble");
  run.lower_bound = json.at("lower_bound");
  run.gap = GapOf(run.makespan, run.lower_bound);  // JSON has no infinity
  run.work = json.at("work").get<std::vector<double>>();
  run.utilisation = json.at("utilisation").get<std::vector<double>>();
  run.peak_activations = json.at("peak_activations").get<std::vector<int>>();
  run.peak_bytes = json.at("peak_bytes").get<std::vector<double>>();
  for (const Json& action : json.at("critical_path"))
    run.critical_path.push_back(TimedActionOf(action));
  for (const Json& kind : json.at("critical_path_why"))
    run.critical_path_why.push_back(static_cast<Cause::Kind>(kind.get<int>()));
  return run;
}

Json ToJson(const ShownSchedule& shown) {
  Json json = {
      {"table", ToJson(shown.table)}, {"costs", ToJson(shown.costs)}, {"run", ToJson(shown.run)}};
  if (shown.activation_limit) json["activation_limit"] = *shown.activation_limit;
  return json;
}

ShownSchedule ShownOf(const Json& json) {
  ShownSchedule shown{.table = TimetableOf(json.at("table")),
                      .costs = CostsOf(json.at("costs")),
                      .activation_limit = {},
                      .run = SimulationOf(json.at("run")),
                      .measured = {}};
  if (json.contains("activation_limit"))
    shown.activation_limit = json.at("activation_limit").get<int>();
  return shown;
}

Json ToJson(const Defect& defect) {
  return {defect.rank, defect.position, defect.action, defect.message};
}

Defect DefectOf(const Json& json) { return {json.at(0), json.at(1), json.at(2), json.at(3)}; }

AskedTimetable AskedOf(const Json& json) {
  AskedTimetable asked{.table = TimetableOf(json.at("table")),
                       .line_end = json.at("crlf").get<bool>() ? LineEnd::kCrLf : LineEnd::kLf,
                       .defects = {},
                       .shown = {}};
  for (const Json& defect : json.at("defects")) asked.defects.push_back(DefectOf(defect));
  if (json.contains("shown")) asked.shown = ShownOf(json.at("shown"));
  return asked;
}

}  // namespace

std::string TimetableState(const AskedTimetable& asked) {
  Json json = {{"format", kFormat},
               {"table", ToJson(asked.table)},
               {"crlf", asked.line_end == LineEnd::kCrLf},
               {"defects", Json::array()}};
  for (const Defect& defect : asked.defects) json["defects"].push_back(ToJson(defect));
  if (asked.shown) json["shown"] = ToJson(*asked.shown);
  return JsonText(json);
}

absl::StatusOr<AskedTimetable> TimetableOfState(absl::string_view state) {
  const absl::StatusOr<Json> json =
      ParseJson(state, {.bytes = std::numeric_limits<size_t>::max(), .depth = JsonLimits().depth});
  if (!json.ok()) return json.status();
  try {
    if (json->at("format") == kFormat) return AskedOf(*json);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pickled timetable is not whole: ", error.what(), "; make it again"));
  }
  return absl::InvalidArgumentError(
      "a pickled timetable is of another version of sluice; make it again with this one");
}

}  // namespace sluice::python
