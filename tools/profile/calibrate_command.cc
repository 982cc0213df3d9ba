#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/files/positioned_file.h"
#include "models/spec/json_text.h"
#include "partitioner/calibration/calibration.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/layer_cost.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/plan/device_file.h"

namespace sluice {
namespace {

constexpr int kDevicesPerNode = 8;
constexpr double kPercent = 100;

struct Flags {
  std::vector<std::string> tables, check;
  std::string device, cluster, output;
  bool json = false;
};

absl::StatusOr<std::vector<MeasuredStep>> ReadTables(const std::vector<std::string>& files) {
  std::vector<MeasuredStep> all;
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> text = ReadWholeFile(file, kMostTextBytes);
    if (!text.ok()) return text.status();
    const absl::StatusOr<std::vector<MeasuredStep>> steps = ParseMeasuredSteps(*text, file);
    if (!steps.ok()) return steps.status();
    all.insert(all.end(), steps->begin(), steps->end());
  }
  return all;
}

// The rates of a built-in device are those of its data sheet; the fit finds which share of them is
// reached.
absl::StatusOr<ClusterSpec> ReadCluster(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file, kMostJsonBytes);
  if (!text.ok()) return text.status();
  return ParseCluster(*text, file);
}

// Nodes of eight on their own links, with four 200 Gbit/s network cards.
ClusterSpec UsualCluster(const DeviceSpec& device) {
  ClusterSpec cluster = UniformCluster(device, kDevicesPerNode);
  cluster.between = {0, 25e9};
  cluster.cards_per_node = 4;
  return cluster;
}

absl::StatusOr<ClusterSpec> Hardware(const Flags& flags) {
  if (!flags.cluster.empty()) {
    if (flags.device.empty()) return ReadCluster(flags.cluster);
    return absl::InvalidArgumentError("--cluster names its devices; leave out --device");
  }
  const absl::StatusOr<DeviceSpec> device =
      ReadDevice(flags.device.empty() ? "a100" : flags.device, DataSheetDevice);
  if (!device.ok()) return device.status();
  return UsualCluster(*device);
}

double Error(double predicted, const MeasuredStep& step) { return predicted / step.seconds - 1; }

std::string HowRun(const MeasuredStep& step) {
  std::string text = fmt::format("{:<8}{:>5}{:>5}{:>5}{:>4}{:>5}  {:<10}", step.model,
                                 step.parallel.tensor, step.parallel.data, step.pipeline,
                                 step.chunks, step.micro_batch, RecomputeName(step.recompute));
  return text + (step.parallel.sequence ? "yes " : "    ");
}

std::string TableHead(const char* last) {
  return fmt::format("  {:<8}{:>5}{:>5}{:>5}{:>4}{:>5}  {:<10}{:<4}{:>11}{:>12}{:>9}{}\n", "model",
                     "tp", "dp", "pp", "v", "mb", "recompute", "sp", "measured", "predicted",
                     "error", last);
}

std::string FormatConstants(const Calibration& calibration) {
  std::string out = fmt::format("  {:<20}{:>12}{:>12}\n", "constant", "expected", "fitted");
  for (const CalibratedConstant& constant : calibration.constants) {
    out += fmt::format("  {:<20}{:>12.4g}{:>12.4g}  {}\n", constant.name, constant.expected,
                       constant.value, constant.what);
  }
  return out;
}

std::string FormatSteps(const Calibration& calibration) {
  std::string out = TableHead("   left out");
  for (const CalibratedStep& step : calibration.steps) {
    out += fmt::format("  {}{:>9.3f} s{:>10.3f} s{:>+8.1f}%", HowRun(step.measured),
                       step.measured.seconds, step.predicted,
                       kPercent * Error(step.predicted, step.measured));
    if (step.held_out) {
      out += fmt::format("{:>+10.1f}%", kPercent * Error(*step.held_out, step.measured));
    }
    out += "\n";
  }
  return out;
}

std::string FormatErrors(const Calibration& calibration) {
  std::string out =
      fmt::format("  mean absolute error {:.2f} % over {} steps, fitted to all of them\n",
                  kPercent * calibration.error, calibration.steps.size());
  if (!calibration.held_out_error) {
    return out + "  one model only: nothing to leave out, so the error elsewhere is not known\n";
  }
  return out + fmt::format(
                   "  mean absolute error {:.2f} % where each of the {} models is predicted "
                   "from the others\n",
                   kPercent * *calibration.held_out_error, calibration.models);
}

// Measured steps that were not used for the fit, and their predictions.
struct Checked {
  std::vector<MeasuredStep> steps;
  std::vector<double> predicted;

  double error() const {
    double sum = 0;
    for (size_t i = 0; i < steps.size(); ++i) sum += std::abs(Error(predicted[i], steps[i]));
    return sum / static_cast<double>(steps.size());
  }
};

absl::StatusOr<Checked> Check(const Flags& flags, const ClusterSpec& cluster) {
  Checked checked;
  if (flags.check.empty()) return checked;
  absl::StatusOr<std::vector<MeasuredStep>> steps = ReadTables(flags.check);
  if (!steps.ok()) return steps.status();
  absl::StatusOr<std::vector<double>> predicted = PredictSteps(*steps, cluster);
  if (!predicted.ok()) return predicted.status();
  checked.steps = *std::move(steps);
  checked.predicted = *std::move(predicted);
  return checked;
}

std::string FormatChecked(const Checked& checked) {
  if (checked.steps.empty()) return "";
  std::string out = "\n" + TableHead("");
  for (size_t i = 0; i < checked.steps.size(); ++i) {
    const MeasuredStep& step = checked.steps[i];
    out += fmt::format("  {}{:>9.3f} s{:>10.3f} s{:>+8.1f}%\n", HowRun(step), step.seconds,
                       checked.predicted[i], kPercent * Error(checked.predicted[i], step));
  }
  return out +
         fmt::format("\n  mean absolute error {:.2f} % over {} steps that nothing was fitted to\n",
                     kPercent * checked.error(), checked.steps.size());
}

nlohmann::ordered_json StepJson(const MeasuredStep& step, double predicted) {
  return {{"file", step.file},
          {"line", step.line},
          {"model", step.model},
          {"tensor_parallel", step.parallel.tensor},
          {"data_parallel", step.parallel.data},
          {"pipeline", step.pipeline},
          {"chunks", step.chunks},
          {"micro_batch_size", step.micro_batch},
          {"recompute", RecomputeName(step.recompute)},
          {"sequence_parallel", step.parallel.sequence},
          {"measured_seconds", step.seconds},
          {"predicted_seconds", predicted}};
}

std::string FormatJson(const Calibration& calibration, const Checked& checked) {
  nlohmann::ordered_json json;
  for (const CalibratedConstant& constant : calibration.constants) {
    json["constants"].push_back(
        {{"name", constant.name}, {"expected", constant.expected}, {"value", constant.value}});
  }
  for (const CalibratedStep& step : calibration.steps) {
    nlohmann::ordered_json row = StepJson(step.measured, step.predicted);
    row["left_out_seconds"] = step.held_out ? nlohmann::ordered_json(*step.held_out) : nullptr;
    json["steps"].push_back(std::move(row));
  }
  json["mean_absolute_error"] = calibration.error;
  json["left_out_error"] =
      calibration.held_out_error ? nlohmann::ordered_json(*calibration.held_out_error) : nullptr;
  for (size_t i = 0; i < checked.steps.size(); ++i) {
    json["checked"].push_back(StepJson(checked.steps[i], checked.predicted[i]));
  }
  if (!checked.steps.empty()) json["checked_error"] = checked.error();
  return JsonText(json, 2) + "\n";
}

absl::Status RunCalibrate(const Flags& flags) {
  const absl::StatusOr<ClusterSpec> hardware = Hardware(flags);
  if (!hardware.ok()) return hardware.status();
  const absl::StatusOr<std::vector<MeasuredStep>> steps = ReadTables(flags.tables);
  if (!steps.ok()) return steps.status();
  const absl::StatusOr<Calibration> calibration = Calibrate(*steps, *hardware);
  if (!calibration.ok()) return calibration.status();
  const absl::StatusOr<Checked> checked = Check(flags, calibration->cluster);
  if (!checked.ok()) return checked.status();
  if (!flags.output.empty()) {
    absl::Status written = WriteOutput(flags.output, FormatCluster(calibration->cluster));
    if (!written.ok()) return written;
  }
  if (flags.json) return WriteOutput("", FormatJson(*calibration, *checked));
  return WriteOutput("", FormatConstants(*calibration) + "\n" + FormatSteps(*calibration) + "\n" +
                             FormatErrors(*calibration) + FormatChecked(*checked));
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("calibrate", "Fit the cost model to measured steps");
  command->footer(
      "Example: sluice calibrate measured.csv --device a100 -o cluster.json\n"
      "A table has one line per measured step of a GPT, with the columns params_b,\n"
      "layers, hidden, heads, seq_len, global_batch, micro_batch, tp, dp, pp,\n"
      "iteration_s; and, where they are not the usual ones, vocab, chunks, recompute,\n"
      "sequence_parallel, flash_attention.");
  auto flags = std::make_shared<Flags>();
  command->add_option("TABLE", flags->tables, "CSV files of measured steps")->required();
  command->add_option(
      "--device", flags->device,
      "Kind of device: a100 (default), h100, ... or a FILE.json; eight per node, with four "
      "200 Gbit/s network cards");
  command->add_option("--cluster", flags->cluster,
                      "FILE.json of the cluster, with peak rates, which are scaled");
  command->add_option("--check", flags->check,
                      "CSV files of measured steps that are predicted, but not used for the fit");
  command->add_option("-o,--output", flags->output,
                      "File to which the fitted cluster is written, for plan --cluster");
  command->add_flag("--json", flags->json, "Print one JSON document");
  command->callback([flags, exit_code] {
    const absl::Status status = RunCalibrate(*flags);
    if (!status.ok()) *exit_code = Fail(status);
  });
}

}  // namespace sluice
