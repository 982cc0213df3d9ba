#include "partitioner/calibration/calibration.h"

#include <nlopt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/calibration/calibration_step.h"

namespace sluice {
namespace {

constexpr int kConstants = 7;
enum Index : int { kProducts, kHalfSize, kMemory, kOverhead, kInside, kBetween, kLatency };

// What is expected of hardware that nobody measured, and how far off that may well be (standard
// deviation of the logarithm). Chosen from what is known of GPUs, not from the tables that are
// fitted.
struct Expected {
  const char* name;
  const char* what;
  double value;
  double spread;
  double most;
};
constexpr std::array<Expected, kConstants> kExpected = {{
    {"product_efficiency", "of peak FLOP/s, reached by large products", 0.80, 0.1, 1},
    // cuBLAS computes products in tiles of 128 x 128 or 256 x 128.
    {"product_half_size", "where one short dimension halves that", 128, 0.5, 1e4},
    {"memory_efficiency", "of memory bandwidth", 0.80, 0.2, 1},
    {"kernel_overhead", "s between kernels", 5e-6, 1, 1},
    // NCCL's bus bandwidth of large all-reduces in one NVSwitch node: 230 of 300 GB/s.
    {"inside", "of bandwidth inside a node", 0.77, 0.2, 1},
    {"between", "of bandwidth between nodes", 0.90, 0.2, 1},
    {"latency", "s until ranks have met", 20e-6, 1, 1},
}};

using Values = std::array<double, kConstants>;

// log(value / expected) / spread of each, which the fit varies, and back.
Values ToValues(const double* distances) {
  Values values;
  for (int i = 0; i < kConstants; ++i) {
    values[i] = kExpected[i].value * std::exp(distances[i] * kExpected[i].spread);
  }
  return values;
}

ClusterSpec WithConstants(const ClusterSpec& hardware, const Values& values) {
  ClusterSpec cluster = hardware;
  cluster.inside = {values[kLatency], hardware.inside.bandwidth * values[kInside]};
  cluster.between = {values[kLatency], hardware.between.bandwidth * values[kBetween]};
  for (DeviceSpec& device : cluster.devices) {
    device.product_efficiency = values[kProducts];
    device.product_half_size = values[kHalfSize];
    device.memory_efficiency = values[kMemory];
    device.kernel_overhead = values[kOverhead];
    device.link = cluster.inside;
  }
  return cluster;
}

struct Problem {
  const ClusterSpec* hardware;
  std::vector<PredictedStep*> steps;
};

double Loss(const Problem& problem, const double* distances) {
  constexpr double kNoise = 0.08;  // of a measured step: repeated runs on clusters differ so much
  const ClusterSpec cluster = WithConstants(*problem.hardware, ToValues(distances));
  double loss = 0;
  for (PredictedStep* step : problem.steps) {
    const double error = std::log(step->Seconds(cluster) / step->measured().seconds) / kNoise;
    loss += 2 * std::sqrt(1 + error * error) - 2;
  }
  for (int i = 0; i < kConstants; ++i) loss += distances[i] * distances[i];
  return loss;
}

double LossForNlopt(unsigned /*count*/, const double* distances, double* /*gradient*/,
                    void* problem) {
  return Loss(*static_cast<const Problem*>(problem), distances);
}

Values Fit(Problem problem) {
  constexpr double kFarthest = 4;  // spreads
  constexpr int kMostCalls = 600;
  constexpr double kTolerance = 1e-4;
  Values low, high, distances{};
  for (int i = 0; i < kConstants; ++i) {
    low[i] = -kFarthest;
    high[i] =
        std::min(kFarthest, std::log(kExpected[i].most / kExpected[i].value) / kExpected[i].spread);
  }
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> search(
      nlopt_create(NLOPT_LN_BOBYQA, kConstants), nlopt_destroy);
  nlopt_set_min_objective(search.get(), LossForNlopt, &problem);
  nlopt_set_lower_bounds(search.get(), low.data());
  nlopt_set_upper_bounds(search.get(), high.data());
  nlopt_set_initial_step1(search.get(), 0.5);
  nlopt_set_xtol_abs1(search.get(), kTolerance);
  nlopt_set_maxeval(search.get(), kMostCalls);
  double loss = 0;
  // However it ends, `distances` holds the best point that was tried.
  nlopt_optimize(search.get(), distances.data(), &loss);
  return ToValues(distances.data());
}

absl::StatusOr<std::vector<PredictedStep>> Compile(absl::Span<const MeasuredStep> steps) {
  std::vector<PredictedStep> compiled;
  for (const MeasuredStep& step : steps) {
    absl::StatusOr<PredictedStep> one = PredictedStep::Compile(step);
    if (!one.ok()) return one.status();
    compiled.push_back(*std::move(one));
  }
  return compiled;
}

absl::Status Check(absl::Span<const MeasuredStep> steps, const ClusterSpec& hardware) {
  if (steps.empty()) return absl::InvalidArgumentError("there are no measured steps to fit");
  if (hardware.devices.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster ", hardware.name, " has ", hardware.devices.size(),
                     " kinds of devices; constants are fitted to steps of one kind"));
  }
  if (std::isfinite(hardware.inside.bandwidth) && std::isfinite(hardware.between.bandwidth)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cluster ", hardware.name, " has no bandwidth to scale"));
}

absl::Status CheckExpected(const Problem& problem) {
  constexpr std::array<double, kConstants> kAsExpected = {};
  if (std::isfinite(Loss(problem, kAsExpected.data()))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cluster ", problem.hardware->name,
                   " would take forever for a step; its rates make no sense"));
}

// Predicts each model's steps by constants fitted to all others.
void HoldOutModels(const ClusterSpec& hardware, const std::set<std::string>& models,
                   std::vector<PredictedStep>* steps, Calibration* calibration) {
  double sum = 0;
  for (const std::string& model : models) {
    Problem others{&hardware, {}};
    for (PredictedStep& step : *steps) {
      if (step.measured().model != model) others.steps.push_back(&step);
    }
    const ClusterSpec cluster = WithConstants(hardware, Fit(others));
    for (size_t i = 0; i < steps->size(); ++i) {
      CalibratedStep& step = calibration->steps[i];
      if (step.measured.model != model) continue;
      step.held_out = (*steps)[i].Seconds(cluster);
      sum += std::abs(*step.held_out / step.measured.seconds - 1);
    }
  }
  calibration->held_out_error = sum / static_cast<double>(steps->size());
}

}  // namespace

absl::StatusOr<Calibration> Calibrate(absl::Span<const MeasuredStep> steps,
                                      const ClusterSpec& hardware) {
  if (absl::Status status = Check(steps, hardware); !status.ok()) return status;
  absl::StatusOr<std::vector<PredictedStep>> compiled = Compile(steps);
  if (!compiled.ok()) return compiled.status();
  Problem all{&hardware, {}};
  std::set<std::string> models;
  for (PredictedStep& step : *compiled) {
    all.steps.push_back(&step);
    models.insert(step.measured().model);
  }
  if (absl::Status status = CheckExpected(all); !status.ok()) return status;
  const Values values = Fit(all);
  Calibration calibration;
  calibration.cluster = WithConstants(hardware, values);
  calibration.models = static_cast<int>(models.size());
  for (int i = 0; i < kConstants; ++i) {
    calibration.constants.push_back(
        {kExpected[i].name, kExpected[i].what, kExpected[i].value, values[i]});
  }
  for (PredictedStep* step : all.steps) {
    const double predicted = step->Seconds(calibration.cluster);
    calibration.steps.push_back({step->measured(), predicted, std::nullopt});
    calibration.error +=
        std::abs(predicted / step->measured().seconds - 1) / static_cast<double>(all.steps.size());
  }
  if (models.size() > 1) HoldOutModels(hardware, models, &*compiled, &calibration);
  return calibration;
}

absl::StatusOr<std::vector<double>> PredictSteps(absl::Span<const MeasuredStep> steps,
                                                 const ClusterSpec& cluster) {
  absl::StatusOr<std::vector<PredictedStep>> compiled = Compile(steps);
  if (!compiled.ok()) return compiled.status();
  std::vector<double> seconds;
  for (PredictedStep& step : *compiled) seconds.push_back(step.Seconds(cluster));
  return seconds;
}

}  // namespace sluice
