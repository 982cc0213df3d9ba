#include "tools/plan_flags.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/plan_file.h"
#include "tools/units.h"

namespace sluice {
namespace {

constexpr int kDefaultMicroBatches = 16;

// What the command line promises for a later version: refused, rather than ignored.
absl::Status RefuseWhatIsToCome(const PlanFlags& flags) {
  if (!flags.cluster.empty()) {
    return absl::UnimplementedError(
        "--cluster is not available yet; give one device with --device, --memory, --bandwidth and "
        "--latency");
  }
  for (const auto& [name, value] : {std::pair{"--data-parallel", &flags.data_parallel},
                                    std::pair{"--tensor-parallel", &flags.tensor_parallel}}) {
    if (*value == "1") continue;
    // A graph's stages may be replicated.
    if (*value == "auto" && value == &flags.data_parallel && NamesGraphFile(flags.model)) continue;
    return absl::UnimplementedError(
        absl::StrCat(name, " ", *value, " is not available yet; leave it out, or give 1"));
  }
  return absl::OkStatus();
}

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
    choices->objective = Objective::kBottleneck;
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
  command.add_option("--devices", flags->devices, "Devices in the pipeline")->required();
  command.add_option("--device", flags->device,
                     "cpu (measured now), a100, h200, or a device's FILE.json");
  command.add_option("--memory", flags->memory, "Memory of each device, as 80GiB");
  command.add_option("--bandwidth", flags->bandwidth, "Between neighbours, as 12GB/s");
  command.add_option("--latency", flags->latency, "Between neighbours, as 5us");
  command.add_option("--micro-batch-size", flags->micro_batch_size, "Samples a micro-batch (4)");
  command.add_option("--micro-batches", flags->micro_batches, "Micro-batches a step (16)");
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
  command.add_option("--cluster", flags->cluster, "Not available yet");
  command.add_option("--data-parallel", flags->data_parallel,
                     "1; auto replicates the stages of a graph.txt");
  command.add_option("--tensor-parallel", flags->tensor_parallel, "Only 1 yet");
  command.add_option("--format", flags->format, "text, json, svg or megatron")
      ->check(CLI::IsMember({"text", "json", "svg", "megatron"}));
  command.add_flag("--json", flags->json, "Short for --format json");
  command.add_option("-o,--output", flags->output,
                     "Write there (JSON, where the file ends in .json) instead of to stdout");
}

absl::StatusOr<PlanChoices> ReadChoices(const PlanFlags& flags) {
  PlanChoices choices;
  absl::Status status = RefuseWhatIsToCome(flags);
  status.Update(ReadWords(flags, &choices));
  status.Update(ReadUnit("--memory", flags.memory, ParseBytes, &choices.memory));
  status.Update(ReadUnit("--bandwidth", flags.bandwidth, ParseBandwidth, &choices.bandwidth));
  status.Update(ReadUnit("--latency", flags.latency, ParseSeconds, &choices.latency));
  status.Update(CheckCount("--micro-batch-size", flags.micro_batch_size));
  status.Update(CheckCount("--micro-batches", flags.micro_batches));
  status.Update(CheckCount("--global-batch", flags.global_batch));
  status.Update(CheckCount("--seq", flags.seq));
  status.Update(CheckCount("--chunks", flags.chunks));
  status.Update(CheckCount("--devices", flags.devices));
  if (!status.ok()) return status;
  return choices;
}

absl::StatusOr<int> MicroBatches(const PlanFlags& flags, int64_t micro_batch_size) {
  if (!flags.global_batch) return flags.micro_batches.value_or(kDefaultMicroBatches);
  const int64_t samples = *flags.global_batch;
  if (samples % micro_batch_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global-batch ", samples, " is no multiple of the micro-batch size ", micro_batch_size));
  }
  const int count = static_cast<int>(samples / micro_batch_size);
  if (flags.micro_batches && *flags.micro_batches != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global-batch ", samples, " makes ", count, " micro-batches of ", micro_batch_size,
        ", not --micro-batches ", *flags.micro_batches, "; give one of the two"));
  }
  return count;
}

}  // namespace sluice
