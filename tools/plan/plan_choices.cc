#include "tools/plan/plan_choices.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/spec/units.h"
#include "partitioner/costs/layer_cost.h"
#include "partitioner/costs/link_limits.h"
#include "tools/flag_values.h"

namespace sluice {
namespace {

absl::Status Bad(const char* flag, const std::string& given, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " is '", given, "'; expected ", expected));
}

// Reads `text` with `parse` if it was given; the error names the flag.
template <typename Value, typename Parse>
absl::Status ReadUnit(const char* flag, const std::string& text, const Parse& parse,
                      std::optional<Value>* value) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<Value> parsed = parse(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", parsed.status().message()));
  }
  *value = *parsed;
  return absl::OkStatus();
}

absl::Status ReadWords(const PlanFlags& flags, PlanQuestion* question) {
  if (flags.format == "megatron") question->trainer = Trainer::kMegatron;
  if (flags.format == "torchtitan") question->trainer = Trainer::kTorchTitan;
  Recompute recompute = Recompute::kNone;
  if (flags.recompute == "auto") {
    question->policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    // Others' selective recomputation drops other tensors (RunPlan says so).
    if (question->trainer != Trainer::kSluice) {
      question->policies = {Recompute::kNone, Recompute::kFull};
    }
  } else if (ParseRecompute(flags.recompute, &recompute)) {
    question->policies = {recompute};
  } else {
    return Bad("--recompute", flags.recompute, "auto, none, selective or full");
  }
  if (flags.objective == "bottleneck") {
    question->objective = PlanObjective::kBottleneck;
  } else if (flags.objective != "step") {
    return Bad("--objective", flags.objective, "step or bottleneck");
  }
  if (!flags.optimizer.empty()) {
    const std::optional<OptimizerKind> optimizer = ParseOptimizer(flags.optimizer);
    if (!optimizer) return Bad("--optimizer", flags.optimizer, "adamw or sgd");
    question->optimizer = *optimizer;
  }
  if (flags.dtype.empty()) return absl::OkStatus();
  DType dtype = DType::kFloat32;
  if (!ParseDType(flags.dtype, &dtype)) return Bad("--dtype", flags.dtype, "fp32 or bf16");
  question->dtype = dtype;
  return absl::OkStatus();
}

// "auto", or a count.
template <typename Count>
absl::Status ReadCount(const char* flag, const std::string& text, std::optional<Count>* count) {
  *count = std::nullopt;
  if (text == "auto") return absl::OkStatus();
  Count value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 1) {
    return Bad(flag, text, "auto, or a number of at least 1");
  }
  *count = value;
  return absl::OkStatus();
}

absl::Status ReadDegrees(const PlanFlags& flags, PlanQuestion* question) {
  absl::Status status;
  status.Update(ReadCount("--data-parallel", flags.data_parallel, &question->data_parallel));
  status.Update(ReadCount("--tensor-parallel", flags.tensor_parallel, &question->tensor_parallel));
  if (!flags.micro_batch_size.empty()) {
    status.Update(
        ReadCount("--micro-batch-size", flags.micro_batch_size, &question->micro_batch_size));
    question->any_micro_batch_size = !question->micro_batch_size.has_value();
  }
  if (flags.zero < 0 || flags.zero > 2) {
    status.Update(Bad("--zero", absl::StrCat(flags.zero), "0, 1 or 2"));
  }
  return status;
}

// "1%" or 0.01.
absl::Status ReadGap(const std::string& text, double* gap) {
  if (text.empty()) return absl::OkStatus();
  absl::string_view digits = text;
  const bool percent = absl::ConsumeSuffix(&digits, "%");
  if (!absl::SimpleAtod(digits, gap) || !(*gap >= 0) || !std::isfinite(*gap)) {
    return Bad("--gap", text, "a share such as 1% or 0.01");
  }
  if (percent) *gap /= 100;
  return absl::OkStatus();
}

absl::StatusOr<double> ParseLatency(absl::string_view text) {
  absl::StatusOr<double> seconds = ParseSeconds(text);
  if (!seconds.ok() || *seconds <= kMostLatency) return seconds;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is longer than any link takes; expected at most ", kMostLatency, " s"));
}

absl::Status ReadCounts(const PlanFlags& flags, PlanQuestion* question) {
  question->micro_batches = flags.micro_batches;
  question->global_batch = flags.global_batch;
  question->seq = flags.seq;
  question->chunks = flags.chunks;
  question->devices = flags.devices;
  absl::Status status = CheckAtLeastOne("--micro-batches", flags.micro_batches);
  status.Update(CheckAtLeastOne("--global-batch", flags.global_batch));
  status.Update(CheckAtLeastOne("--seq", flags.seq));
  status.Update(CheckAtLeastOne("--chunks", flags.chunks));
  status.Update(CheckAtLeastOne("--devices", flags.devices));
  return status;
}

void TakeSwitches(const PlanFlags& flags, PlanQuestion* question) {
  if (flags.schedule != "auto") question->schedule = flags.schedule;
  question->sequence_parallel = flags.sequence_parallel;
  question->overlap_sync = flags.overlap_sync;
  question->zero = flags.zero;
  question->mirror = flags.mirror;
  question->audit_every = flags.audit;
  question->pareto = flags.pareto;
  question->what_if = flags.what_if;
}

}  // namespace

absl::Status ReadChoices(const PlanFlags& flags, PlanQuestion* question) {
  TakeSwitches(flags, question);
  absl::Status status = ReadWords(flags, question);
  status.Update(ReadDegrees(flags, question));
  status.Update(ReadGap(flags.gap, &question->gap));
  status.Update(ReadUnit("--time-limit", flags.time_limit, ParseTimeLimit, &question->time_limit));
  status.Update(ReadUnit("--memory", flags.memory, ParseBytes, &question->memory));
  status.Update(ReadUnit("--bandwidth", flags.bandwidth, ParseBandwidth, &question->bandwidth));
  status.Update(ReadUnit("--latency", flags.latency, ParseLatency, &question->latency));
  status.Update(ReadCounts(flags, question));
  return status;
}

}  // namespace sluice
