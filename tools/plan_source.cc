#include "tools/plan_source.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "partitioner/analytic_cost.h"
#include "partitioner/decoder_cost.h"
#include "partitioner/device.h"
#include "partitioner/profile.h"
#include "tools/cpu_device.h"
#include "tools/files.h"
#include "tools/layer_memory.h"

namespace sluice {
namespace {

constexpr int kDefaultMicroBatchSize = 4;
constexpr int64_t kDefaultDecoderSeq = 4096;

bool NamesJsonFile(const std::string& text) { return absl::EndsWith(text, ".json"); }

bool NamesCpu(const PlanFlags& flags) { return flags.device.empty() || flags.device == "cpu"; }

// --device where it is not this machine's CPU.
absl::StatusOr<DeviceSpec> NamedDevice(const PlanFlags& flags) {
  if (!NamesJsonFile(flags.device)) return BuiltInDevice(flags.device);
  const absl::StatusOr<std::string> text = ReadFile(flags.device);
  if (!text.ok()) return text.status();
  return ParseDevice(*text, flags.device);
}

absl::StatusOr<DeviceSpec> ResolveDevice(const PlanFlags& flags, const ModelSpec& spec,
                                         const BatchShape& batch, DType dtype) {
  if (NamesCpu(flags)) return MeasureCpu(spec, batch, dtype, flags.devices);
  return NamedDevice(flags);
}

DType DefaultDType(const PlanFlags& flags) {
  return NamesCpu(flags) ? DType::kFloat32 : DType::kBFloat16;
}

void TakeDevice(const DeviceSpec& device, PlanSource* source) {
  source->device = device.name;
  source->costs = device.source;
  source->link = device.link;
  if (device.memory_bytes > 0) source->memory = device.memory_bytes;
}

// A model that sluice does not train: its layers cannot be timed here.
absl::StatusOr<PlanSource> FromDecoder(const PlanFlags& flags, const PlanChoices& choices,
                                       const DecoderConfig& config) {
  if (absl::Status status = RefuseShapeFlags(flags.model); !status.ok()) return status;
  if (NamesCpu(flags)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.model.model, " is a ", config.family,
                     ", which sluice plans for but does not run; give its device: --device h200, "
                     "or a FILE.json"));
  }
  const absl::StatusOr<DeviceSpec> device = NamedDevice(flags);
  if (!device.ok()) return device.status();
  PlanSource source;
  source.context.model = flags.model.model;
  source.context.dtype = choices.dtype.value_or(DefaultDType(flags));
  source.batch.size = flags.micro_batch_size.value_or(kDefaultMicroBatchSize);
  source.batch.seq =
      flags.seq.value_or(static_cast<int>(std::min<int64_t>(config.max_seq, kDefaultDecoderSeq)));
  if (source.batch.seq < 1 || source.batch.seq > config.max_seq) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--seq is ", source.batch.seq, "; ", flags.model.model, " takes 1 to ", config.max_seq));
  }
  source.layers = DecoderCosts(config, source.batch, source.context.dtype,
                               choices.optimizer == OptimizerKind::kAdamW ? 2 : 1, *device);
  TakeDevice(*device, &source);
  return source;
}

absl::StatusOr<PlanSource> FromModel(const PlanFlags& flags, const PlanChoices& choices) {
  absl::StatusOr<ModelSpec> spec = ResolveModel(flags.model, flags.seq.value_or(0));
  if (!spec.ok()) return spec.status();
  PlanSource source;
  source.context.model = flags.model.model;
  source.context.dtype = choices.dtype.value_or(DefaultDType(flags));
  source.batch.size = flags.micro_batch_size.value_or(kDefaultMicroBatchSize);
  source.batch.seq = spec->gpt() == nullptr ? 1 : flags.seq.value_or(spec->gpt()->max_seq);
  const absl::StatusOr<DeviceSpec> device =
      ResolveDevice(flags, *spec, source.batch, source.context.dtype);
  if (!device.ok()) return device.status();
  absl::StatusOr<std::vector<LayerCost>> layers =
      DeclaredCosts(*spec, source.batch, source.context.dtype, choices.optimizer);
  if (!layers.ok()) return layers.status();
  SetAnalyticSeconds(DescribeLayers(*spec, source.batch), source.batch, source.context.dtype,
                     *device, &*layers);
  source.layers = *std::move(layers);
  TakeDevice(*device, &source);
  source.context.spec = *std::move(spec);
  return source;
}

// A profile was measured for one shape; flags may repeat it, not change it.
absl::Status CheckProfileFlags(const PlanFlags& flags, const PlanChoices& choices,
                               const Profile& profile) {
  const ModelFlags& model = flags.model;
  const char* wrong = nullptr;
  if (model.layers != 0 || model.dim != 0 || model.heads != 0 || model.vocab != 0 || model.tied) {
    wrong = "--layers, --dim, --heads, --vocab and --tied";
  } else if (flags.seq.value_or(static_cast<int>(profile.seq)) != profile.seq) {
    wrong = "--seq";
  } else if (flags.micro_batch_size.value_or(static_cast<int>(profile.micro_batch_size)) !=
             profile.micro_batch_size) {
    wrong = "--micro-batch-size";
  } else if (choices.dtype.value_or(profile.dtype) != profile.dtype) {
    wrong = "--dtype";
  } else if (!flags.device.empty() && flags.device != profile.device) {
    wrong = "--device";
  }
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      wrong, " cannot change what ", model.model, " was measured for: ", profile.micro_batch_size,
      " x ", profile.seq, " tokens in ", DTypeName(profile.dtype), " on ", profile.device,
      "; measure again with sluice profile"));
}

absl::StatusOr<PlanSource> FromProfile(const PlanFlags& flags, const PlanChoices& choices,
                                       const std::string& text) {
  absl::StatusOr<Profile> profile = ParseProfile(text, flags.model.model);
  if (!profile.ok()) return profile.status();
  if (absl::Status status = CheckProfileFlags(flags, choices, *profile); !status.ok()) {
    return status;
  }
  PlanSource source;
  source.context.model = profile->model;
  source.context.spec = std::move(profile->spec);
  source.context.dtype = profile->dtype;
  source.batch = {profile->micro_batch_size, profile->seq};
  source.layers = std::move(profile->layers);
  source.device = profile->device;
  source.costs = absl::StrCat("measured, ", flags.model.model);
  source.link = profile->link;
  return source;
}

absl::StatusOr<PlanSource> FromJson(const PlanFlags& flags, const PlanChoices& choices,
                                    const std::string& text) {
  if (IsProfile(text)) return FromProfile(flags, choices, text);
  if (HuggingFaceModelType(text) == "gpt2") return FromModel(flags, choices);
  const absl::StatusOr<DecoderConfig> config =
      ParseDecoderConfig(text, flags.model.model, flags.assume);
  if (!config.ok()) return config.status();
  return FromDecoder(flags, choices, *config);
}

}  // namespace

absl::StatusOr<PlanSource> LoadPlanSource(const PlanFlags& flags, const PlanChoices& choices) {
  absl::StatusOr<PlanSource> source;
  if (NamesJsonFile(flags.model.model)) {
    const absl::StatusOr<std::string> text = ReadFile(flags.model.model);
    if (!text.ok()) return text.status();
    source = FromJson(flags, choices, *text);
  } else if (absl::StatusOr<DecoderConfig> preset = PresetDecoder(flags.model.model); preset.ok()) {
    source = FromDecoder(flags, choices, *preset);
  } else {
    source = FromModel(flags, choices);
  }
  if (!source.ok()) return source;
  source->context.micro_batch_size = source->batch.size;
  source->context.seq = source->batch.seq;
  if (choices.memory) source->memory = choices.memory;
  if (choices.bandwidth) source->link.bandwidth = *choices.bandwidth;
  if (choices.latency) source->link.latency = *choices.latency;
  return source;
}

}  // namespace sluice
