#include "pipeline/checkpoint/files/hyper_parameters.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "models/spec/units.h"

namespace sluice {
namespace {

constexpr char kWarmup[] = "warmup";
constexpr char kCosine[] = "cosine";
constexpr char kSteps[] = "steps";
// Up to here every whole number is a double.
constexpr double kMostSteps = 0x1p53;

// One that is a plain number.
struct Number {
  const char* name;  // in state.json
  const char* flag;  // without its dashes; null where there is none
  double OptimizerOptions::*value;
  std::optional<double> GivenHyperParameters::*given;   // null where it cannot be given
  std::optional<OptimizerKind> only_of = std::nullopt;  // the optimizer that uses it
  // Kernels take it as a float, all but the norm to clip at.
  double most = std::numeric_limits<float>::max();
};

constexpr Number kNumbers[] = {
    {"lr", "lr", &OptimizerOptions::lr, &GivenHyperParameters::lr},
    {"weight_decay", "weight-decay", &OptimizerOptions::weight_decay,
     &GivenHyperParameters::weight_decay},
    {"clip", "clip", &OptimizerOptions::clip, &GivenHyperParameters::clip, std::nullopt,
     std::numeric_limits<double>::max()},
    {"momentum", "momentum", &OptimizerOptions::momentum, &GivenHyperParameters::momentum,
     OptimizerKind::kSgd},
    {"beta1", nullptr, &OptimizerOptions::beta1, nullptr, OptimizerKind::kAdamW},
    {"beta2", nullptr, &OptimizerOptions::beta2, nullptr, OptimizerKind::kAdamW},
    {"final_lr_fraction", nullptr, &OptimizerOptions::final_lr_fraction, nullptr},
};

const char* Text(LrSchedule schedule) {
  return schedule == LrSchedule::kCosine ? "cosine" : "constant";
}

std::optional<double> Find(const std::map<std::string, double>& saved, const char* name) {
  const auto found = saved.find(name);
  return found == saved.end() ? std::nullopt : std::optional<double>(found->second);
}

bool Usable(const Number& number, double value) { return value >= 0 && value <= number.most; }
bool UsableSteps(double value) {
  return value >= 0 && value <= kMostSteps && value == std::floor(value);
}

absl::Status CannotUse(const char* name, double value, const char* flag) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the checkpoint's ", name, " is ", ShortestNumber(value), ", which no run can use",
      flag == nullptr ? "" : absl::StrCat("; give another, with --", flag)));
}

// The choice of each value, one after the other.
class Resumer {
 public:
  Resumer(const std::map<std::string, double>& saved, const GivenHyperParameters& given,
          OptimizerKind kind, ResumedHyperParameters* out)
      : saved_(saved), given_(given), kind_(kind), out_(*out) {}

  absl::Status TakeNumber(const Number& number) {
    const std::optional<double> saved = Find(saved_, number.name);
    double& value = out_.values.optimizer.*number.value;
    const bool given = number.given != nullptr && (given_.*number.given).has_value();
    if (!saved.has_value()) return absl::OkStatus();
    if (!given) {
      if (!Usable(number, *saved)) return CannotUse(number.name, *saved, number.flag);
      value = *saved;
    } else if (value != *saved && number.only_of.value_or(kind_) == kind_) {
      Differs(number.flag, ShortestNumber(*saved), ShortestNumber(value));
    }
    return absl::OkStatus();
  }

  absl::Status TakeWarmup() {
    const std::optional<double> saved = Find(saved_, kWarmup);
    int64_t& warmup = out_.values.optimizer.warmup;
    if (!saved.has_value()) return absl::OkStatus();
    if (!given_.warmup.has_value()) {
      if (!UsableSteps(*saved)) return CannotUse(kWarmup, *saved, "warmup");
      warmup = static_cast<int64_t>(*saved);
    } else if (static_cast<double>(warmup) != *saved) {
      Differs(kWarmup, ShortestNumber(*saved), absl::StrCat(warmup));
    }
    return absl::OkStatus();
  }

  void TakeSchedule() {
    const std::optional<double> saved = Find(saved_, kCosine);
    LrSchedule& schedule = out_.values.optimizer.schedule;
    if (!saved.has_value()) return;
    const LrSchedule before = *saved != 0 ? LrSchedule::kCosine : LrSchedule::kConstant;
    if (!given_.schedule.has_value()) {
      schedule = before;
    } else if (schedule != before) {
      Differs("lr-schedule", Text(before), Text(schedule));
    }
  }

  // After TakeSchedule.
  absl::Status TakeSteps() {
    const std::optional<double> saved = Find(saved_, kSteps);
    int64_t& steps = out_.values.steps;
    if (!saved.has_value() || out_.values.optimizer.schedule != LrSchedule::kCosine) {
      return absl::OkStatus();
    }
    if (!given_.steps.has_value()) {
      if (!UsableSteps(*saved)) return CannotUse(kSteps, *saved, "steps");
      steps = static_cast<int64_t>(*saved);
    } else if (static_cast<double>(steps) != *saved && Find(saved_, kCosine).value_or(0) != 0) {
      out_.differences.push_back(absl::StrCat("steps ", ShortestNumber(*saved),
                                              " in the checkpoint, ", steps,
                                              " given: going on along a cosine of ", steps));
    }
    return absl::OkStatus();
  }

 private:
  void Differs(const char* flag, absl::string_view saved, absl::string_view given) {
    out_.differences.push_back(absl::StrCat(flag, " ", saved, " in the checkpoint, ", given,
                                            " given: going on with ", given));
  }

  const std::map<std::string, double>& saved_;
  const GivenHyperParameters& given_;
  const OptimizerKind kind_;
  ResumedHyperParameters& out_;
};

}  // namespace

HyperParameters WithGiven(const HyperParameters& usual, const GivenHyperParameters& given) {
  HyperParameters values = usual;
  for (const Number& number : kNumbers) {
    if (number.given == nullptr) continue;
    double& value = values.optimizer.*number.value;
    value = (given.*number.given).value_or(value);
  }
  values.optimizer.warmup = given.warmup.value_or(usual.optimizer.warmup);
  values.optimizer.schedule = given.schedule.value_or(usual.optimizer.schedule);
  values.steps = given.steps.value_or(usual.steps);
  return values;
}

std::map<std::string, double> ToNamedNumbers(const HyperParameters& values) {
  const OptimizerOptions& optimizer = values.optimizer;
  std::map<std::string, double> numbers = {
      {kWarmup, static_cast<double>(optimizer.warmup)},
      {kCosine, optimizer.schedule == LrSchedule::kCosine ? 1.0 : 0.0},
      {kSteps, static_cast<double>(values.steps)}};
  for (const Number& number : kNumbers) numbers[number.name] = optimizer.*number.value;
  return numbers;
}

absl::StatusOr<ResumedHyperParameters> ResumeHyperParameters(
    const std::map<std::string, double>& saved, const HyperParameters& usual,
    const GivenHyperParameters& given, OptimizerKind kind) {
  ResumedHyperParameters resumed;
  resumed.values = WithGiven(usual, given);
  Resumer resumer(saved, given, kind, &resumed);
  for (const Number& number : kNumbers) {
    if (absl::Status status = resumer.TakeNumber(number); !status.ok()) return status;
  }
  if (absl::Status status = resumer.TakeWarmup(); !status.ok()) return status;
  resumer.TakeSchedule();
  if (absl::Status status = resumer.TakeSteps(); !status.ok()) return status;
  return resumed;
}

}  // namespace sluice
