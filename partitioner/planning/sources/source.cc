#include "partitioner/planning/sources/source.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/kernels/record/recorded_kernels.h"
#include "models/layers/adapted_layers.h"
#include "models/layers/trainable.h"
#include "partitioner/costs/analytic_cost.h"
#include "partitioner/planning/profiling/cpu_device.h"
#include "partitioner/planning/roofline/roofline.h"
#include "partitioner/planning/sources/cluster_prices.h"
#include "partitioner/planning/sources/layer_memory.h"
#include "partitioner/planning/sources/replica_costs.h"

namespace sluice {
namespace {

constexpr int kDefaultMicroBatchSize = 4;
// Devices that could share a stage where no cluster says how many a node has.
constexpr int kDevicesPerNode = 8;

absl::Status WholeStagesOnly(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      what, " says nothing of tensor parallelism; name a device: --device h200, or a FILE.json"));
}

// Devices whose rates are known: a cluster, or as many of one device as are asked for in one node.
void TakeCluster(const PlanQuestion& question, const DecoderConfig& config, PlanSource* source) {
  const bool alike = !question.cluster.has_value();
  ClusterSpec cluster =
      alike ? UniformCluster(*question.device, question.devices) : *question.cluster;
  source->device = alike ? cluster.devices[0].name : cluster.name;
  source->costs = alike ? cluster.devices[0].source : cluster.source;
  source->most_tensor =
      alike ? std::min(question.devices, kDevicesPerNode) : cluster.devices_per_node;
  source->kinds = cluster.counts;
  for (const DeviceSpec& kind : cluster.devices) source->kind_names.push_back(kind.name);
  source->price =
      ClusterPrices(config, question, source->dtype, source->batch.seq, std::move(cluster));
}

// The price of layers that sluice itself runs, of one of the replicas that `setting` asks for.
absl::StatusOr<Machines> PriceReplica(const PlanQuestion& question, const PlanSetting& setting,
                                      const Link& link, std::vector<LayerCost> layers) {
  ShareOverReplicas({.replicas = setting.data,
                     .zero = question.zero,
                     .micro_batches = setting.micro_batches,
                     .optimizer = question.optimizer,
                     .link = link},
                    &layers);
  absl::StatusOr<std::shared_ptr<const CostTable>> table =
      CostTable::CreateShared(std::move(layers));
  if (!table.ok()) return table.status();
  Machines machines;
  machines.costs = *std::move(table);
  machines.link = link;
  return machines;
}

// Whether it is known what each kernel takes that sluice would run.
bool HasKernelRates(const DeviceSpec& device, DType dtype) {
  return device.has_kernel_rates && dtype == DType::kBFloat16;
}

// The price of a model on a device, with the bytes of sluice's own kernels.
absl::StatusOr<Machines> PriceOwn(const PlanQuestion& question, const DeviceSpec& device,
                                  const Kernels& kernels, CudaAttention attention, int64_t seq,
                                  DType dtype, const PlanSetting& setting) {
  if (setting.tensor > 1) return WholeStagesOnly("the model's own costs");
  const ModelSpec& model = *question.spec();
  const BatchShape shape{setting.micro_batch_size, seq};
  absl::StatusOr<std::vector<LayerCost>> layers =
      DeclaredCosts(model, shape, dtype, question.optimizer, kernels, question.adaptation);
  if (!layers.ok()) return layers.status();
  if (HasKernelRates(device, dtype)) {
    const absl::StatusOr<StepLaunches> step = RecordStep(model, {.batch = shape,
                                                                 .attention = attention,
                                                                 .optimizer = question.optimizer,
                                                                 .adaptation = question.adaptation,
                                                                 .documents = question.documents});
    if (!step.ok()) return step.status();
    SetExpectedSeconds(*step, device, &*layers);
  } else {
    SetAnalyticSeconds(DescribeAdapted(model, shape, question.adaptation, kernels.head_limits),
                       shape, dtype, device, &*layers);
  }
  absl::StatusOr<Machines> machines =
      PriceReplica(question, setting, device.link, *std::move(layers));
  if (!machines.ok()) return machines;
  if (device.memory_bytes > 0) machines->memory_limit = device.memory_bytes;
  ApplyQuestion(question, &*machines);
  return machines;
}

const Kernels& KernelsOfRun(bool on_processor, MasterWeights weights, CudaAttention attention) {
  return on_processor ? CpuKernels(weights) : RecordedKernels(attention);
}

// Whose attention a GPU runs is a choice where sluice's own kernels run there.
absl::Status RefuseAttention(const PlanQuestion& question, const char* whose) {
  if (!question.attention) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--attention is a choice of sluice's own runs on GPUs, not of ", whose, "; leave it out"));
}

// How sluice itself runs `spec`, on a device whose rates are known or measured.
absl::Status TakeOwn(const PlanQuestion& question, const ModelSpec& spec, PlanSource* source) {
  const bool here = question.on_this_processor();
  const MasterWeights weights =
      question.master_weights.value_or(here ? MasterWeights::kWhole : MasterWeights::kSplit);
  source->attention = question.attention.value_or(CudaAttention::kSluice);
  absl::Status status =
      here ? RefuseAttention(question, "processors")
           : CheckOnGpus(question.master_weights, source->attention, question.documents);
  if (!status.ok()) return status;
  const absl::StatusOr<DeviceSpec> device =
      question.device ? *question.device
                      : MeasureCpu(spec, source->batch, source->dtype, question.devices);
  if (!device.ok()) return device.status();
  source->device = device->name;
  source->costs = HasKernelRates(*device, source->dtype)
                      ? absl::StrCat(DataSheetDevice(device->name)->source,
                                     ", and what kernels reached on an H200")
                      : device->source;
  source->runs_here = true;
  source->on_processor = here;
  source->memory_bandwidth = device->memory_bandwidth;
  source->kernels = &KernelsOfRun(here, weights, source->attention);
  source->price = [&question, device = *device, kernels = source->kernels,
                   attention = source->attention, seq = source->batch.seq,
                   dtype = source->dtype](const PlanSetting& setting) {
    return PriceOwn(question, device, *kernels, attention, seq, dtype, setting);
  };
  return absl::OkStatus();
}

// What is trained in part goes by the names of parameters, which are known of what trains.
absl::Status CheckParts(const PlanQuestion& question, const ModelSpec& spec) {
  if (question.adaptation == Adaptation()) return absl::OkStatus();
  if (absl::Status status = CheckTrainable(spec); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--lora and --freeze are planned for models that sluice trains; ", status.message()));
  }
  return CheckTrained(question.adaptation, spec, question.compute_type());
}

// A model as transformers are counted: where devices share stages or stand in a cluster, where
// others train its replicas, and where sluice has no layers for it.
absl::Status TakeCounted(const PlanQuestion& question, const ModelSpec& spec, bool trains,
                         PlanSource* source) {
  const DecoderConfig* config = spec.decoder();
  if (config == nullptr) {
    return absl::InvalidArgumentError(
        "tensor parallelism, clusters and other trainers' replicas are planned for transformers "
        "only");
  }
  if (absl::Status status = CheckParts(question, spec); !status.ok()) return status;
  absl::Status status = RefuseAttention(
      question,
      "tensor parallelism, clusters, other trainers' replicas and models that sluice does not run");
  if (!status.ok()) return status;
  if (!question.on_this_processor()) {
    TakeCluster(question, *config, source);
    return absl::OkStatus();
  }
  if (trains) return WholeStagesOnly("the measured CPU");
  return absl::InvalidArgumentError(
      absl::StrCat(question.model, " is a ", config->family,
                   ", which sluice plans for but does not run; give its device: --device h200, "
                   "or a FILE.json"));
}

// Tokens per sample: as many as were asked for, or as usual.
absl::StatusOr<int64_t> SeqOf(const PlanQuestion& question, const ModelSpec& spec) {
  if (spec.decoder() == nullptr) return 1;
  const int64_t longest = spec.max_seq();
  const int64_t seq = question.seq.value_or(spec.usual_seq());
  if (seq >= 1 && seq <= longest) return seq;
  return absl::InvalidArgumentError(
      absl::StrCat("--seq is ", seq, "; ", question.model, " takes 1 to ", longest));
}

// A model that trains is priced as sluice runs it, where it can run it so.
absl::Status TakeModel(const PlanQuestion& question, const ModelSpec& spec, PlanSource* source) {
  const bool trains = CheckTrainable(spec).ok();
  const absl::StatusOr<int64_t> seq = SeqOf(question, spec);
  if (!seq.ok()) return seq.status();
  source->batch.seq = *seq;
  source->layers = spec.layer_count();
  if (trains) source->spec = spec;
  // Others' replicas on devices are not sluice's; but of what is trained in part, counting knows
  // too little.
  const bool adapted = !(question.adaptation == Adaptation());
  const bool of_others = question.trainer != Trainer::kSluice && !question.only_pipelines() &&
                         question.device && !adapted;
  const bool own = trains && !question.cluster && question.tensor_parallel == 1 && !of_others;
  return own ? TakeOwn(question, spec, source) : TakeCounted(question, spec, trains, source);
}

// AdamW reads a weight, its gradient and two moments, and writes all but the gradient: 28 bytes, for
// which memory is what it waits for. 0 where the profile does not say what updates take.
double MemoryBandwidthOf(const Profile& profile) {
  constexpr double kBytesPerUpdate = 7 * sizeof(float);
  double bytes = 0, seconds = 0;
  for (const LayerCost& layer : profile.layers) {
    if (layer.update_seconds <= 0) continue;
    bytes += kBytesPerUpdate * static_cast<double>(layer.parameters);
    seconds += layer.update_seconds;
  }
  return seconds > 0 ? bytes / seconds : 0;
}

absl::Status TakeProfile(const PlanQuestion& question, const Profile& profile, PlanSource* source) {
  if (question.attention.value_or(profile.attention) != profile.attention) {
    return absl::InvalidArgumentError(
        absl::StrCat("--attention ", CudaAttentionName(*question.attention), ": ", question.model,
                     " was measured with ", CudaAttentionName(profile.attention),
                     "'s attention; measure again with sluice profile"));
  }
  source->attention = profile.attention;
  source->model = profile.model;
  source->spec = profile.spec;
  source->dtype = profile.dtype;
  source->adaptation = profile.adaptation;
  source->batch = {profile.micro_batch_size, profile.seq};
  source->device = profile.device;
  source->costs = absl::StrCat("measured, ", question.model);
  source->layers = static_cast<int>(profile.layers.size());
  source->runs_here = true;
  source->on_processor = source->device == "cpu";
  source->memory_bandwidth = MemoryBandwidthOf(profile);
  source->kernels =
      &KernelsOfRun(source->on_processor, MasterWeightsOf(profile.layers), profile.attention);
  source->price = [&question, &profile](const PlanSetting& setting) -> absl::StatusOr<Machines> {
    if (setting.tensor > 1) return WholeStagesOnly("a profile");
    absl::StatusOr<Machines> machines =
        PriceReplica(question, setting, profile.link, profile.layers);
    if (machines.ok()) ApplyQuestion(question, &*machines);
    return machines;
  };
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanSource> MakeSource(const PlanQuestion& question) {
  PlanSource source;
  source.model = question.model;
  source.dtype = question.compute_type();
  source.adaptation = question.adaptation;
  source.batch.size = question.micro_batch_size.value_or(kDefaultMicroBatchSize);
  absl::Status status;
  if (const auto* profile = std::get_if<Profile>(&question.subject)) {
    status = TakeProfile(question, *profile, &source);
  } else {
    status = TakeModel(question, *question.spec(), &source);
  }
  if (!status.ok()) return status;
  return source;
}

}  // namespace sluice
