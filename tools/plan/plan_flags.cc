#include "tools/plan/plan_flags.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/spec/units.h"
#include "partitioner/planning/file.h"

namespace sluice {
namespace {

absl::Status Bad(const char* flag, const std::string& given, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " is '", given, "'; expected ", expected));
}

// Reads `text` with `parse` where it was given; the error says which flag it is about.
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

absl::Status ReadWords(const PlanFlags& flags, PlanChoices* choices) {
  Recompute recompute = Recompute::kNone;
  if (flags.recompute == "auto") {
    choices->policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  } else if (ParseRecompute(flags.recompute, &recompute)) {
    choices->policies = {recompute};
  } else {
    return Bad("--recompute", flags.recompute, "auto, none, selective or full");
  }
  if (flags.objective == "bottleneck") {
    choices->objective = PlanObjective::kBottleneck;
  } else if (flags.objective != "step") {
    return Bad("--objective", flags.objective, "step or bottleneck");
  }
  if (flags.optimizer == "sgd") {
    choices->optimizer = OptimizerKind::kSgd;
  } else if (flags.optimizer != "adamw") {
    return Bad("--optimizer", flags.optimizer, "adamw or sgd");
  }
  if (flags.dtype.empty()) return absl::OkStatus();
  DType dtype = DType::kFloat32;
  if (!ParseDType(flags.dtype, &dtype)) return Bad("--dtype", flags.dtype, "fp32 or bf16");
  choices->dtype = dtype;
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

absl::Status ReadDegrees(const PlanFlags& flags, PlanChoices* choices) {
  absl::Status status;
  status.Update(ReadCount("--data-parallel", flags.data_parallel, &choices->data_parallel));
  status.Update(ReadCount("--tensor-parallel", flags.tensor_parallel, &choices->tensor_parallel));
  if (!flags.micro_batch_size.empty()) {
    status.Update(
        ReadCount("--micro-batch-size", flags.micro_batch_size, &choices->micro_batch_size));
    choices->any_micro_batch_size = !choices->micro_batch_size.has_value();
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

absl::Status CheckCount(const char* flag, const std::optional<int>& value) {
  if (!value || *value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " must be at least 1, not ", *value));
}

}  // namespace

void AddPlanFlags(CLI::App& command, PlanFlags* flags) {
  command
      .add_option("MODEL", flags->model.model,
                  "A preset (gpt2, llama-3.1-8b, char-gpt, ...), a Hugging Face config.json, or a "
                  "profile.json from sluice profile, or a PipeDream graph.txt")
      ->required();
  AddShapeFlags(command, &flags->model);
  command.add_option("--devices", flags->devices, "Devices in all")->required();
  command.add_option("--device", flags->device,
                     "cpu (measured now), v100, a100, a100-40gb, h100, h200, or a device's "
                     "FILE.json");
  command.add_option("--memory", flags->memory, "Memory of each device, as 80GiB");
  command.add_option("--bandwidth", flags->bandwidth, "Between neighbours, as 12GB/s");
  command.add_option("--latency", flags->latency, "Between neighbours, as 5us");
  command.add_option("--micro-batch-size", flags->micro_batch_size,
                     "Samples a micro-batch (4); auto tries the powers of two");
  command.add_option("--micro-batches", flags->micro_batches,
                     "Micro-batches of a replica a step (16)");
  command.add_option("--global-batch", flags->global_batch, "Samples a step, instead");
  command.add_option("--assume", flags->assume,
                     "Read a config.json of an unknown model_type as this one, as llama");
  command.add_option("--seq", flags->seq, "Tokens a sample");
  command.add_option("--dtype", flags->dtype, "fp32 or bf16");
  command.add_option("--schedule", flags->schedule, "auto, or a name of sluice schedule list");
  command.add_option("--chunks", flags->chunks, "Stages a device");
  command.add_option("--recompute", flags->recompute, "auto, none, selective or full");
  command.add_option("--objective", flags->objective, "step or bottleneck");
  command.add_option("--partition", flags->partition, "Price this one, as 0-5,6-11");
  command.add_option("--optimizer", flags->optimizer, "adamw or sgd: its state takes memory");
  command.add_option("--cluster", flags->cluster,
                     "FILE.json: which devices, how many a node, and the links between them");
  command.add_option("--data-parallel", flags->data_parallel,
                     "Replicas of the pipeline (1); auto tries all, or replicates the stages of a "
                     "graph.txt");
  command.add_option("--tensor-parallel", flags->tensor_parallel,
                     "Devices that share each stage (1); auto tries what fits into a node");
  command.add_flag("--sequence-parallel", flags->sequence_parallel,
                   "Tensor-parallel devices keep slices of the tokens in between");
  command.add_option("--zero", flags->zero,
                     "1: replicas share the optimizer's state; 2: the gradients, too");
  command.add_flag("--overlap-sync", flags->overlap_sync,
                   "Replicas sum gradients while the last backward runs");
  command.add_option("--time-limit", flags->time_limit,
                     "Stop the search after this long with the best plan and its gap (10s, where "
                     "there are several ways to use the devices)");
  command.add_option("--gap", flags->gap, "Good enough: within this much of the best, as 1%");
  command.add_flag("--pareto", flags->pareto, "Also: the fastest plan for every amount of memory");
  command.add_flag("--what-if", flags->what_if,
                   "Also: what more devices, memory or bandwidth would buy");
  command.add_option("--format", flags->format, "text, json, svg or megatron")
      ->check(CLI::IsMember({"text", "json", "svg", "megatron"}));
  command.add_flag("--json", flags->json, "Short for --format json");
  command.add_option("-o,--output", flags->output,
                     "Write there (JSON, where the file ends in .json) instead of to stdout");
}

absl::StatusOr<PlanChoices> ReadChoices(const PlanFlags& flags) {
  PlanChoices choices;
  absl::Status status = ReadWords(flags, &choices);
  status.Update(ReadDegrees(flags, &choices));
  status.Update(ReadGap(flags.gap, &choices.gap));
  status.Update(ReadUnit("--time-limit", flags.time_limit, ParseSeconds, &choices.time_limit));
  status.Update(ReadUnit("--memory", flags.memory, ParseBytes, &choices.memory));
  status.Update(ReadUnit("--bandwidth", flags.bandwidth, ParseBandwidth, &choices.bandwidth));
  status.Update(ReadUnit("--latency", flags.latency, ParseSeconds, &choices.latency));
  status.Update(CheckCount("--micro-batches", flags.micro_batches));
  status.Update(CheckCount("--global-batch", flags.global_batch));
  status.Update(CheckCount("--seq", flags.seq));
  status.Update(CheckCount("--chunks", flags.chunks));
  status.Update(CheckCount("--devices", flags.devices));
  if (!status.ok()) return status;
  return choices;
}

absl::StatusOr<int64_t> GlobalBatch(const PlanFlags& flags, const PlanChoices& choices,
                                    int64_t micro_batch_size) {
  const int64_t replicas = choices.data_parallel.value_or(1);
  if (!flags.global_batch) {
    return replicas * flags.micro_batches.value_or(kDefaultMicroBatches) * micro_batch_size;
  }
  const int64_t samples = *flags.global_batch;
  if (choices.any_micro_batch_size || !choices.data_parallel) {
    if (!flags.micro_batches) return samples;
    return absl::InvalidArgumentError(
        "--global-batch and --micro-batches leave nothing to choose; give one of the two");
  }
  const int64_t at_once = replicas * micro_batch_size;
  if (samples % at_once != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global-batch ", samples, " is no multiple of the micro-batch size ", micro_batch_size,
        replicas > 1 ? absl::StrCat(" x ", replicas, " replicas") : ""));
  }
  if (flags.micro_batches && *flags.micro_batches != samples / at_once) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global-batch ", samples, " makes ", samples / at_once, " micro-batches of ",
        micro_batch_size, ", not --micro-batches ", *flags.micro_batches, "; give one of the two"));
  }
  return samples;
}

}  // namespace sluice
