#include "tools/plan/plan_source.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "partitioner/costs/analytic_cost.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/decoder_cost.h"
#include "partitioner/costs/device.h"
#include "partitioner/costs/parallel.h"
#include "partitioner/costs/profile.h"
#include "partitioner/planning/profiling/cpu_device.h"
#include "tools/files.h"
#include "tools/plan/layer_memory.h"
#include "tools/plan/replica_costs.h"
#include "tools/train/bf16_note.h"

namespace sluice {
namespace {

constexpr int kDefaultMicroBatchSize = 4;
constexpr int64_t kDefaultDecoderSeq = 4096;
// Devices that could share a stage where no cluster says how many there are to a node.
constexpr int kDevicesANode = 8;

bool NamesJsonFile(const std::string& text) { return absl::EndsWith(text, ".json"); }

bool NamesCpu(const PlanFlags& flags) {
  return flags.cluster.empty() && (flags.device.empty() || flags.device == "cpu");
}

// --device where it is not this machine's CPU.
absl::StatusOr<DeviceSpec> NamedDevice(const PlanFlags& flags) {
  if (!NamesJsonFile(flags.device)) return BuiltInDevice(flags.device);
  const absl::StatusOr<std::string> text = ReadFile(flags.device);
  if (!text.ok()) return text.status();
  return ParseDevice(*text, flags.device);
}

absl::StatusOr<DeviceSpec> ResolveDevice(const PlanFlags& flags, const ModelSpec& spec,
                                         const BatchShape& batch, DType dtype) {
  if (NamesCpu(flags)) {
    NoteSlowBFloat16("cpu", dtype);
    return MeasureCpu(spec, batch, dtype, flags.devices);
  }
  return NamedDevice(flags);
}

DType DefaultDType(const PlanFlags& flags) {
  return NamesCpu(flags) ? DType::kFloat32 : DType::kBFloat16;
}

// What flags say instead of the device.
void ApplyFlags(const PlanChoices& choices, Machines* machines) {
  if (choices.memory) machines->SetMemory(choices.memory);
  for (Link& link : machines->rank_links) {
    link.bandwidth = choices.bandwidth.value_or(link.bandwidth);
    link.latency = choices.latency.value_or(link.latency);
  }
  machines->link.bandwidth = choices.bandwidth.value_or(machines->link.bandwidth);
  machines->link.latency = choices.latency.value_or(machines->link.latency);
}

// --cluster, or as many of --device as are asked for in one node.
absl::StatusOr<ClusterSpec> ResolveCluster(const PlanFlags& flags) {
  if (flags.cluster.empty()) {
    const absl::StatusOr<DeviceSpec> device = NamedDevice(flags);
    if (!device.ok()) return device.status();
    return UniformCluster(*device, flags.devices);
  }
  if (!flags.device.empty()) {
    return absl::InvalidArgumentError("--cluster says which devices there are; leave out --device");
  }
  const absl::StatusOr<std::string> text = ReadFile(flags.cluster);
  if (!text.ok()) return text.status();
  absl::StatusOr<ClusterSpec> cluster = ParseCluster(*text, flags.cluster);
  if (cluster.ok() && cluster->device_count() < flags.devices) {
    return absl::InvalidArgumentError(absl::StrCat("--devices ", flags.devices, ": ", flags.cluster,
                                                   " has ", cluster->device_count()));
  }
  return cluster;
}

// Costs on devices whose rates are known, of models that are described by their widths.
class ClusterPrices {
 public:
  ClusterPrices(DecoderConfig config, const PlanFlags& flags, const PlanChoices& choices,
                const PlanSource& source, ClusterSpec cluster)
      : config_(std::move(config)),
        flags_(flags),
        choices_(choices),
        dtype_(source.context.dtype),
        seq_(source.batch.seq),
        cluster_(std::move(cluster)) {}

  absl::StatusOr<Machines> operator()(const PlanSetting& setting) const {
    Parallel parallel;
    parallel.data = setting.data;
    parallel.tensor = setting.tensor;
    parallel.sequence = flags_.sequence_parallel && setting.tensor > 1;
    parallel.zero = flags_.zero;
    if (absl::Status status = ValidateParallel(parallel); !status.ok()) return status;
    if (config_.heads % setting.tensor != 0) {
      return absl::InvalidArgumentError(absl::StrCat(config_.heads, " heads do not share out over ",
                                                     setting.tensor, " tensor-parallel devices"));
    }
    DecoderTraining training;
    training.batch = {setting.micro_batch_size, seq_};
    training.dtype = dtype_;
    training.state_copies = choices_.optimizer == OptimizerKind::kAdamW ? 2 : 1;
    training.overlap_sync = flags_.overlap_sync;
    Machines machines;
    std::vector<std::shared_ptr<const CostTable>> kinds;
    for (size_t kind = 0; kind < cluster_.devices.size(); ++kind) {
      absl::StatusOr<std::shared_ptr<const CostTable>> table = CostTable::CreateShared(
          DecoderCosts(config_, training, parallel, cluster_, static_cast<int>(kind)));
      if (!table.ok()) return table.status();
      kinds.push_back(*std::move(table));
    }
    machines.costs = kinds.front();
    TakeRanks(setting, parallel, kinds, &machines);
    ApplyFlags(choices_, &machines);
    return machines;
  }

 private:
  // Links and, where devices differ, costs and memory by rank.
  void TakeRanks(const PlanSetting& setting, const Parallel& parallel,
                 const std::vector<std::shared_ptr<const CostTable>>& kinds,
                 Machines* machines) const {
    machines->link = cluster_.inside;
    for (int rank = 0; rank < setting.pipeline; ++rank) {
      const int next = (rank + 1) % setting.pipeline;
      machines->rank_links.push_back(RankLink(cluster_, parallel, rank, next));
    }
    if (kinds.size() == 1) {
      if (cluster_.devices[0].memory_bytes > 0) {
        machines->memory_limit = cluster_.devices[0].memory_bytes;
      }
      return;
    }
    for (int kind : setting.rank_devices) {
      machines->rank_costs.push_back(kinds[kind]);
      const int64_t bytes = cluster_.devices[kind].memory_bytes;
      machines->rank_memory.push_back(bytes > 0 ? bytes : std::numeric_limits<int64_t>::max());
    }
  }

  DecoderConfig config_;
  PlanFlags flags_;
  PlanChoices choices_;
  DType dtype_;
  int64_t seq_;
  ClusterSpec cluster_;
};

absl::Status TakeCluster(const PlanFlags& flags, const PlanChoices& choices, DecoderConfig config,
                         PlanSource* source) {
  absl::StatusOr<ClusterSpec> cluster = ResolveCluster(flags);
  if (!cluster.ok()) return cluster.status();
  source->device = flags.cluster.empty() ? cluster->devices[0].name : cluster->name;
  source->costs = flags.cluster.empty() ? cluster->devices[0].source : cluster->source;
  source->most_tensor =
      flags.cluster.empty() ? std::min(flags.devices, kDevicesANode) : cluster->devices_per_node;
  source->kinds = cluster->counts;
  source->layers = static_cast<int>(DescribeDecoder(config, {}, source->context.dtype).size());
  source->price = ClusterPrices(std::move(config), flags, choices, *source, *std::move(cluster));
  return absl::OkStatus();
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
  PlanSource source;
  source.context.model = flags.model.model;
  source.context.dtype = choices.dtype.value_or(DefaultDType(flags));
  source.batch.size = choices.micro_batch_size.value_or(kDefaultMicroBatchSize);
  source.batch.seq =
      flags.seq.value_or(static_cast<int>(std::min<int64_t>(config.max_seq, kDefaultDecoderSeq)));
  if (source.batch.seq < 1 || source.batch.seq > config.max_seq) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--seq is ", source.batch.seq, "; ", flags.model.model, " takes 1 to ", config.max_seq));
  }
  if (absl::Status status = TakeCluster(flags, choices, config, &source); !status.ok()) {
    return status;
  }
  return source;
}

absl::Status WholeStagesOnly(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      what, " says nothing of tensor parallelism; name a device: --device h200, or a FILE.json"));
}

// What sluice runs itself: one of the replicas that the setting asks for.
void TakeReplicas(const PlanSetting& setting, int zero, OptimizerKind optimizer, const Link& link,
                  std::vector<LayerCost>* layers) {
  ShareOverReplicas({.replicas = setting.data,
                     .zero = zero,
                     .micro_batches = setting.micro_batches,
                     .optimizer = optimizer,
                     .link = link},
                    layers);
}

// The price of a model on a device, with the bytes of sluice's own kernels.
absl::StatusOr<Machines> PriceOwn(const ModelSpec& model, const PlanChoices& choices,
                                  const DeviceSpec& device, const Kernels& kernels, int64_t seq,
                                  DType dtype, int zero, const PlanSetting& setting) {
  if (setting.tensor > 1) return WholeStagesOnly("the model's own costs");
  const BatchShape shape{setting.micro_batch_size, seq};
  absl::StatusOr<std::vector<LayerCost>> layers =
      DeclaredCosts(model, shape, dtype, choices.optimizer, kernels);
  if (!layers.ok()) return layers.status();
  SetAnalyticSeconds(DescribeLayers(model, shape), shape, dtype, device, &*layers);
  TakeReplicas(setting, zero, choices.optimizer, device.link, &*layers);
  absl::StatusOr<std::shared_ptr<const CostTable>> table =
      CostTable::CreateShared(*std::move(layers));
  if (!table.ok()) return table.status();
  Machines machines;
  machines.costs = *std::move(table);
  machines.link = device.link;
  if (device.memory_bytes > 0) machines.memory_limit = device.memory_bytes;
  ApplyFlags(choices, &machines);
  return machines;
}

// How sluice runs `spec` on a device whose rates are known or measured.
absl::Status TakeOwn(const PlanFlags& flags, const PlanChoices& choices, const ModelSpec& spec,
                     PlanSource* source) {
  const DType dtype = source->context.dtype;
  const absl::StatusOr<DeviceSpec> device = ResolveDevice(flags, spec, source->batch, dtype);
  if (!device.ok()) return device.status();
  source->device = device->name;
  source->costs = device->source;
  source->runs_here = true;
  if (NamesCpu(flags)) source->kernels = &CpuKernels();
  source->context.zero = flags.zero;
  source->price = [model = spec, choices, device = *device, kernels = source->kernels,
                   seq = source->batch.seq, dtype, zero = flags.zero](const PlanSetting& setting) {
    return PriceOwn(model, choices, device, *kernels, seq, dtype, zero, setting);
  };
  return absl::OkStatus();
}

// The same model where devices share stages or stand in a cluster.
absl::Status TakeShared(const PlanFlags& flags, const PlanChoices& choices, const ModelSpec& spec,
                        PlanSource* source) {
  if (spec.gpt() == nullptr) {
    return absl::InvalidArgumentError(
        "replicas, tensor parallelism and clusters are planned for transformers only");
  }
  if (NamesCpu(flags)) return WholeStagesOnly("the measured CPU");
  return TakeCluster(flags, choices, DecoderOf(*spec.gpt()), source);
}

// A model that sluice trains.
absl::StatusOr<PlanSource> FromModel(const PlanFlags& flags, const PlanChoices& choices) {
  absl::StatusOr<ModelSpec> spec = ResolveModel(flags.model, flags.seq.value_or(0));
  if (!spec.ok()) return spec.status();
  PlanSource source;
  source.context.model = flags.model.model;
  source.context.dtype = choices.dtype.value_or(DefaultDType(flags));
  source.batch.size = choices.micro_batch_size.value_or(kDefaultMicroBatchSize);
  source.batch.seq = spec->gpt() == nullptr ? 1 : flags.seq.value_or(spec->gpt()->max_seq);
  source.context.spec = *spec;
  source.layers = spec->layer_count();
  // Replicas on the CPU are sluice's own, too.
  const bool own = flags.cluster.empty() &&
                   (choices.plain() || (NamesCpu(flags) && choices.tensor_parallel == 1));
  const absl::Status status =
      own ? TakeOwn(flags, choices, *spec, &source) : TakeShared(flags, choices, *spec, &source);
  if (!status.ok()) return status;
  return source;
}

// A profile was measured for one shape; flags may repeat it, not change it.
absl::Status CheckProfileFlags(const PlanFlags& flags, const PlanChoices& choices,
                               const Profile& profile) {
  const ModelFlags& model = flags.model;
  const char* wrong = nullptr;
  if (model.shapes()) {
    wrong = kShapeFlags;
  } else if (flags.seq.value_or(static_cast<int>(profile.seq)) != profile.seq) {
    wrong = "--seq";
  } else if (choices.any_micro_batch_size ||
             choices.micro_batch_size.value_or(profile.micro_batch_size) !=
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
  source.device = profile->device;
  source.costs = absl::StrCat("measured, ", flags.model.model);
  source.layers = static_cast<int>(profile->layers.size());
  source.runs_here = true;
  if (source.device == "cpu") source.kernels = &CpuKernels();
  source.context.zero = flags.zero;
  source.price = [layers = std::move(profile->layers), link = profile->link, zero = flags.zero,
                  choices](const PlanSetting& setting) -> absl::StatusOr<Machines> {
    if (setting.tensor > 1) return WholeStagesOnly("a profile");
    std::vector<LayerCost> shared = layers;
    TakeReplicas(setting, zero, choices.optimizer, link, &shared);
    absl::StatusOr<std::shared_ptr<const CostTable>> table =
        CostTable::CreateShared(std::move(shared));
    if (!table.ok()) return table.status();
    Machines machines;
    machines.costs = *std::move(table);
    machines.link = link;
    ApplyFlags(choices, &machines);
    return machines;
  };
  return source;
}

absl::StatusOr<PlanSource> FromJson(const PlanFlags& flags, const PlanChoices& choices,
                                    const std::string& text) {
  if (IsProfile(text)) return FromProfile(flags, choices, text);
  if (IsGptModelType(HuggingFaceModelType(text))) return FromModel(flags, choices);
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
    if (absl::IsNotFound(source.status())) {
      return absl::NotFoundError(absl::StrCat(source.status().message(), ", ",
                                              absl::StrJoin(DecoderPresets(), ", "),
                                              ", or a file's name: FILE.json or graph.txt"));
    }
  }
  if (!source.ok()) return source;
  source->context.micro_batch_size = source->batch.size;
  source->context.seq = source->batch.seq;
  return source;
}

}  // namespace sluice
