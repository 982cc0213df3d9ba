#include "tools/roofline/roofline_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/json_text.h"
#include "models/spec/units.h"

namespace sluice {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kMilli = 1e-3, kMicro = 1e-6;

// A line of what is not as usual, in at most 80 columns; "" where all is.
std::string Unusual(const RecordedTraining& training) {
  std::vector<std::string> parts;
  if (training.optimizer == OptimizerKind::kSgd) parts.emplace_back("SGD");
  if (training.documents) parts.emplace_back("packed documents");
  if (std::string trained = training.adaptation.ToString(); !trained.empty()) {
    parts.push_back(std::move(trained));
  }
  if (parts.empty()) return "";
  constexpr size_t kWidth = 78;
  std::string line = absl::StrJoin(parts, "; ");
  if (line.size() > kWidth) line = absl::StrCat(line.substr(0, kWidth - 3), "...");
  return absl::StrCat("  ", line, "\n");
}

std::string Head(const RooflineReport& report) {
  const DeviceSpec& sheet = report.sheet;
  const RecordedTraining& training = report.training;
  return fmt::format(
      "{} on one {}\n  {} micro-batches of {} x {} tokens in bf16, recomputation: {}{}\n{}"
      "  {:.4g} TFLOP/s, {:.3g} TB/s: {}\n\n",
      report.model, sheet.name, report.micro_batches, training.batch.size, training.batch.seq,
      RecomputeName(report.recompute),
      report.queueing == Queueing::kGraphs ? "" : ", no CUDA graphs", Unusual(training),
      sheet.flops(DType::kBFloat16) / kTera, sheet.memory_bandwidth / kTera, sheet.source);
}

std::string KindLine(const std::string& name, const LaunchSum& sum) {
  return fmt::format("  {:<26}{:>9}{:>9.2f}{:>9.2f}{:>11.3f}{:>11.3f}\n", name, sum.launches,
                     sum.flops / kTera, sum.bytes / kGiga, sum.bound_seconds / kMilli,
                     sum.expected_seconds / kMilli);
}

std::string LayerLine(const std::string& name, const char* pass, const LaunchSum& sum) {
  return fmt::format("  {:<22}{:<4}{:>9}{:>9.1f}{:>9.1f}{:>11.1f}{:>11.1f}\n", name, pass,
                     sum.launches, sum.flops / kGiga, sum.bytes * 1e-6, sum.bound_seconds / kMicro,
                     sum.expected_seconds / kMicro);
}

std::string Total(const char* name, double seconds, const RooflineReport& report,
                  const char* what) {
  return fmt::format("  {:<9}{:>8}   MFU {:>6}   {}\n", name, FormatSeconds(seconds),
                     FormatShare(report.Mfu(seconds)), what);
}

nlohmann::ordered_json ToJson(const LaunchSum& sum) {
  return {{"launches", sum.launches},
          {"flops", sum.flops},
          {"bytes", sum.bytes},
          {"bound_seconds", sum.bound_seconds},
          {"expected_seconds", sum.expected_seconds}};
}

}  // namespace

RooflineReport MakeReport(std::string model, RecordedTraining training, const StepLaunches& step,
                          const DeviceSpec& sheet, int micro_batches, Recompute recompute,
                          Queueing queueing, double model_flops) {
  const Launches launches = step.Step(micro_batches, recompute);
  return {.model = std::move(model),
          .sheet = sheet,
          .training = std::move(training),
          .micro_batches = micro_batches,
          .recompute = recompute,
          .queueing = queueing,
          .model_flops = model_flops,
          .step = Sum(launches, sheet, queueing),
          .kinds = SumByKind(launches, sheet, queueing),
          .layers = GroupLayers(step, sheet, queueing)};
}

std::string FormatRooflineTable(const RooflineReport& report) {
  std::string out = Head(report);
  out += fmt::format("  {:<26}{:>9}{:>9}{:>9}{:>11}{:>11}\n", "kernels of a step", "launches",
                     "TFLOP", "GB", "bound, ms", "expected");
  for (const KindSum& kind : report.kinds) out += KindLine(KernelName(kind.kind), kind.sum);
  out += KindLine("all", report.step);
  out += fmt::format("\n  {:<26}{:>9}{:>9}{:>9}{:>11}{:>11}\n", "layer, of a micro-batch",
                     "launches", "GFLOP", "MB", "bound, us", "expected");
  for (const LayerGroup& layer : report.layers) {
    out += LayerLine(layer.name, "F", layer.forward);
    if (layer.input_grad.launches > 0) out += LayerLine("", "I", layer.input_grad);
    if (layer.weight_grad.launches > 0) out += LayerLine("", "W", layer.weight_grad);
  }
  out += "\n";
  out += Total("bound", report.step.bound_seconds, report, "every kernel at its roofline");
  out += Total("expected", report.step.expected_seconds, report,
               "what kernels of a kind reached on an H200");
  const absl::StatusOr<DeviceSpec> measured = DataSheetDevice("h200");
  if (!measured.ok() || report.sheet.source != measured->source) {
    out += "            that they reach the same share of another device is an assumption\n";
  }
  return out;
}

std::string FormatRooflineJson(const RooflineReport& report) {
  nlohmann::ordered_json json = {{"model", report.model},
                                 {"device", report.sheet.name},
                                 {"dtype", DTypeName(DType::kBFloat16)},
                                 {"micro_batch_size", report.training.batch.size},
                                 {"micro_batches", report.micro_batches},
                                 {"seq", report.training.batch.seq},
                                 {"recompute", RecomputeName(report.recompute)},
                                 {"cuda_graphs", report.queueing == Queueing::kGraphs},
                                 {"peak_flops_per_second", report.sheet.flops(DType::kBFloat16)},
                                 {"memory_bandwidth", report.sheet.memory_bandwidth},
                                 {"model_flops", report.model_flops}};
  if (report.training.optimizer == OptimizerKind::kSgd) json["optimizer"] = "sgd";
  if (report.training.documents) json["packed"] = true;
  if (const std::string trained = report.training.adaptation.ToString(); !trained.empty())
    json["adaptation"] = trained;
  json.update(ToJson(report.step));
  json["bound_mfu"] = report.Mfu(report.step.bound_seconds);
  json["expected_mfu"] = report.Mfu(report.step.expected_seconds);
  json["kernels"] = nlohmann::ordered_json::array();
  for (const KindSum& kind : report.kinds) {
    nlohmann::ordered_json row = {{"kernel", KernelName(kind.kind)}};
    row.update(ToJson(kind.sum));
    json["kernels"].push_back(std::move(row));
  }
  json["layers"] = nlohmann::ordered_json::array();
  for (const LayerGroup& layer : report.layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"layers", layer.layers},
                              {"F", ToJson(layer.forward)},
                              {"I", ToJson(layer.input_grad)},
                              {"W", ToJson(layer.weight_grad)}});
  }
  return JsonText(json, 2) + "\n";
}

}  // namespace sluice
